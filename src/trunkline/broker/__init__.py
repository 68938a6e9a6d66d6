"""The verbs every protocol is translated to: create, publish, fetch, commit, describe."""
