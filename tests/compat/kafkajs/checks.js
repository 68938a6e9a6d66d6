// Checks of kafkajs against a broker: node checks.js HOST:PORT [part of a check's name].
// Prints one JSON line per check: {name, passed, seconds, detail}. Every topic and group name is new on each run.
'use strict';

const assert = require('node:assert/strict');
const { once, EventEmitter } = require('node:events');
const { Kafka, logLevel, CompressionTypes, ConfigResourceTypes } = require('kafkajs');

const [bootstrap, match = ''] = process.argv.slice(2);
const CHECK_DEADLINE_MS = 45_000;
const runId = Math.random().toString(36).slice(2, 8);
let names = 0;
let opened = []; // clients of the running check, closed after it

const kafka = new Kafka({ clientId: 'compat', brokers: [bootstrap], logLevel: logLevel.NOTHING });
const fresh = (kind) => `kafkajs-${kind}-${runId}-${++names}`;

async function newProducer(options) {
  const producer = kafka.producer(options);
  opened.push(producer);
  await producer.connect();
  return producer;
}

async function newAdmin() {
  const admin = kafka.admin();
  opened.push(admin);
  await admin.connect();
  return admin;
}

async function newTopic(numPartitions = 1) {
  const topic = fresh('topic');
  const admin = await newAdmin();
  await admin.createTopics({ topics: [{ topic, numPartitions }], waitForLeaders: true });
  return topic;
}

async function send(topic, ...values) {
  const producer = await newProducer();
  return producer.send({ topic, messages: values.map((value) => (typeof value === 'string' ? { value } : value)) });
}

// A consumer whose messages are kept; `until(n)` waits for n of them.
class Reader extends EventEmitter {
  constructor(groupId = fresh('group'), options = {}) {
    super();
    this.messages = [];
    this.assigned = [];
    this.consumer = kafka.consumer({ groupId, ...options });
    opened.push(this.consumer);
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => {
      this.assigned = Object.values(payload.memberAssignment).flat();
      this.joined = true;
      this.emit('change');
    });
  }

  async start(subscription, { run = {}, handler = async () => {} } = {}) {
    await this.consumer.connect();
    await this.consumer.subscribe(subscription);
    await this.consumer.run({
      ...run,
      eachMessage: async ({ topic, partition, message }) => {
        await handler({ topic, partition, message });
        this.messages.push({ topic, partition, message });
        this.emit('change');
      },
    });
    return this;
  }

  async when(condition) {
    while (!condition(this)) await once(this, 'change');
    return this;
  }

  until(count) {
    return this.when(() => this.messages.length >= count);
  }

  get values() {
    return this.messages.map(({ message }) => message.value.toString());
  }
}

async function bothSettled(a, b, share) {
  await Promise.all([a.when(() => a.assigned.length === share), b.when(() => b.assigned.length === share)]);
}

const checks = {
  'producer: send with key, value, timestamp and headers': async () => {
    const topic = await newTopic();
    const timestamp = Date.now() - 5000;
    const body = JSON.stringify({ orderId: 'order-456', items: ['item1', 'item2'], total: 99.99 });
    await send(topic, { key: 'user-123', value: body, timestamp, headers: { 'correlation-id': 'abc123' } });
    const reader = await new Reader().start({ topic, fromBeginning: true });
    await reader.until(1);
    const { message } = reader.messages[0];
    assert.equal(message.key.toString(), 'user-123');
    assert.equal(message.value.toString(), body);
    assert.equal(message.timestamp, String(timestamp));
    assert.equal(message.headers['correlation-id'].toString(), 'abc123');
    assert.equal(message.offset, '0');
  },

  'producer: send to a topic that does not exist yet': async () => {
    const topic = fresh('auto');
    await send(topic, 'first');
    const reader = await new Reader().start({ topic, fromBeginning: true });
    await reader.until(1);
    assert.deepEqual(reader.values, ['first']);
  },

  'producer: send tells partition and offset': async () => {
    const topic = await newTopic();
    await send(topic, 'a', 'b');
    const [told] = await send(topic, 'c');
    assert.deepEqual([told.partition, told.baseOffset, told.errorCode], [0, '2', 0]);
  },

  'producer: the same key goes to the same partition': async () => {
    const topic = await newTopic(4);
    for (let round = 0; round < 3; round++) await send(topic, { key: 'user-1', value: `${round}` });
    const reader = await new Reader().start({ topic, fromBeginning: true });
    await reader.until(3);
    assert.equal(new Set(reader.messages.map(({ partition }) => partition)).size, 1);
    assert.deepEqual(reader.values, ['0', '1', '2']);
  },

  'producer: sendBatch to several topics': async () => {
    const topics = [await newTopic(), await newTopic()];
    const producer = await newProducer();
    await producer.sendBatch({ topicMessages: topics.map((topic) => ({ topic, messages: [{ value: topic }] })) });
    const reader = await new Reader().start({ topics, fromBeginning: true });
    await reader.until(2);
    assert.deepEqual(reader.values.sort(), [...topics].sort());
  },

  'producer: acks 0 and 1': async () => {
    const topic = await newTopic();
    const producer = await newProducer();
    await producer.send({ topic, acks: 0, messages: [{ value: 'zero' }] });
    await producer.send({ topic, acks: 1, messages: [{ value: 'one' }] });
    const reader = await new Reader().start({ topic, fromBeginning: true });
    await reader.until(2);
    assert.deepEqual(reader.values, ['zero', 'one']);
  },

  'producer: gzip': async () => {
    const topic = await newTopic();
    const producer = await newProducer();
    const messages = Array.from({ length: 100 }, (_, number) => ({ value: `value ${number}` }));
    await producer.send({ topic, compression: CompressionTypes.GZIP, messages });
    const reader = await new Reader().start({ topic, fromBeginning: true });
    await reader.until(100);
    assert.deepEqual(reader.values, messages.map(({ value }) => value));
  },

  'producer: idempotent': async () => {
    const topic = await newTopic();
    const producer = await newProducer({ idempotent: true, maxInFlightRequests: 1 });
    for (const value of ['a', 'b', 'c']) await producer.send({ topic, messages: [{ value }] });
    const reader = await new Reader().start({ topic, fromBeginning: true });
    await reader.until(3);
    assert.deepEqual(reader.values, ['a', 'b', 'c']);
  },

  'producer: a transaction is seen once it is committed': async () => {
    const topic = await newTopic();
    const producer = await newProducer({ transactionalId: fresh('tx'), maxInFlightRequests: 1, idempotent: true });
    const aborted = await producer.transaction();
    await aborted.send({ topic, messages: [{ value: 'aborted' }] });
    await aborted.abort();
    const committed = await producer.transaction();
    await committed.send({ topic, messages: [{ value: 'committed' }] });
    await committed.commit();
    const reader = await new Reader().start({ topic, fromBeginning: true });
    await reader.until(1);
    assert.deepEqual(reader.values, ['committed']);
  },

  'consumer: subscribe from the beginning': async () => {
    const topic = await newTopic(3);
    await send(topic, ...Array.from({ length: 30 }, (_, number) => `${number}`));
    const reader = await new Reader().start({ topic, fromBeginning: true });
    await reader.until(30);
    assert.equal(new Set(reader.values).size, 30);
  },

  'consumer: subscribe to several topics, new messages only': async () => {
    const topics = [await newTopic(), await newTopic()];
    for (const topic of topics) await send(topic, 'old');
    const reader = await new Reader().start({ topics, fromBeginning: false });
    await reader.when(() => reader.joined);
    // It fetches its starting offsets just after it joined: send until one comes, none of them may be old.
    const producer = await newProducer();
    while (new Set(reader.messages.map(({ topic }) => topic)).size < 2) {
      for (const topic of topics) await producer.send({ topic, messages: [{ value: 'new' }] });
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    assert.ok(!reader.values.includes('old'));
  },

  'consumer: subscribe by a regular expression': async () => {
    const topic = await newTopic();
    await send(topic, 'found');
    const reader = await new Reader().start({ topics: [new RegExp(`^${topic}$`)], fromBeginning: true });
    await reader.until(1);
    assert.deepEqual(reader.values, ['found']);
  },

  'consumer: subscribe to a topic that does not exist yet': async () => {
    const topic = fresh('missing');
    const reader = await new Reader().start({ topic, fromBeginning: true });
    await send(topic, 'late');
    await reader.until(1);
    assert.deepEqual(reader.values, ['late']);
  },

  'consumer: subscribe and run without an explicit connect': async () => {
    const topic = await newTopic();
    await send(topic, 'here');
    const reader = new Reader();
    await reader.consumer.subscribe({ topic, fromBeginning: true });
    await reader.consumer.run({
      eachMessage: async (given) => {
        reader.messages.push(given);
        reader.emit('change');
      },
    });
    await reader.until(1);
    assert.deepEqual(reader.values, ['here']);
  },

  'consumer: eachBatch with a heartbeat': async () => {
    const topic = await newTopic();
    await send(topic, 'a', 'b', 'c');
    const reader = new Reader();
    await reader.consumer.connect();
    await reader.consumer.subscribe({ topic, fromBeginning: true });
    await reader.consumer.run({
      eachBatch: async ({ batch, heartbeat, resolveOffset }) => {
        for (const message of batch.messages) {
          reader.messages.push({ message });
          resolveOffset(message.offset);
          await heartbeat();
        }
        reader.emit('change');
      },
    });
    await reader.until(3);
    assert.deepEqual(reader.values, ['a', 'b', 'c']);
  },

  'consumer: seek back': async () => {
    const topic = await newTopic();
    await send(topic, 'a', 'b', 'c');
    const reader = await new Reader().start({ topic, fromBeginning: true });
    await reader.until(3);
    reader.consumer.seek({ topic, partition: 0, offset: '1' });
    await reader.until(5);
    assert.deepEqual(reader.values, ['a', 'b', 'c', 'b', 'c']);
  },

  'consumer: a message whose handler fails comes again': async () => {
    const topic = await newTopic();
    await send(topic, 'fragile');
    let attempts = 0;
    const handler = async () => {
      if (++attempts === 1) throw new Error('first attempt fails');
    };
    const reader = await new Reader().start({ topic, fromBeginning: true }, { handler });
    await reader.until(1);
    assert.deepEqual([reader.values, attempts], [['fragile'], 2]);
  },

  'groups: two consumers share the partitions, each message once': async () => {
    const topic = await newTopic(4);
    const group = fresh('group');
    const first = await new Reader(group).start({ topic, fromBeginning: true });
    const second = await new Reader(group).start({ topic, fromBeginning: true });
    await bothSettled(first, second, 2);
    const producer = await newProducer();
    const messages = Array.from({ length: 40 }, (_, number) => ({ value: `${number}`, partition: number % 4 }));
    await producer.send({ topic, messages });
    await Promise.all([first.until(20), second.until(20)]);
    assert.equal(new Set([...first.values, ...second.values]).size, 40);
  },

  'groups: the one that stays takes over from the one that leaves': async () => {
    const topic = await newTopic(4);
    const group = fresh('group');
    const first = await new Reader(group).start({ topic, fromBeginning: true });
    const second = await new Reader(group).start({ topic, fromBeginning: true });
    await bothSettled(first, second, 2);
    await second.consumer.disconnect();
    await first.when(() => first.assigned.length === 4);
    const producer = await newProducer();
    await producer.send({ topic, messages: [0, 1, 2, 3].map((partition) => ({ value: `${partition}`, partition })) });
    await first.until(4);
    assert.deepEqual(first.values.sort(), ['0', '1', '2', '3']);
  },

  'groups: every group gets every message': async () => {
    const topic = await newTopic();
    await send(topic, 'a', 'b');
    const readers = [new Reader(), new Reader(), new Reader()];
    await Promise.all(readers.map((reader) => reader.start({ topic, fromBeginning: true })));
    await Promise.all(readers.map((reader) => reader.until(2)));
    for (const reader of readers) assert.deepEqual(reader.values, ['a', 'b']);
  },

  'groups: a restarted consumer goes on after what it committed by itself': async () => {
    const topic = await newTopic();
    const group = fresh('group');
    await send(topic, 'a', 'b');
    const first = await new Reader(group).start({ topic, fromBeginning: true });
    await first.until(2);
    await first.consumer.disconnect();
    await send(topic, 'c');
    const second = await new Reader(group).start({ topic, fromBeginning: true });
    await second.until(1);
    assert.deepEqual(second.values, ['c']);
  },

  'groups: manual commits with autoCommit off': async () => {
    const topic = await newTopic();
    const group = fresh('group');
    await send(topic, 'a', 'b', 'c');
    const first = await new Reader(group).start({ topic, fromBeginning: true }, { run: { autoCommit: false } });
    await first.until(3);
    await first.consumer.commitOffsets([{ topic, partition: 0, offset: '1', metadata: 'by hand' }]);
    await first.consumer.disconnect();
    const admin = await newAdmin();
    const [{ partitions }] = await admin.fetchOffsets({ groupId: group, topics: [topic] });
    assert.deepEqual([partitions[0].offset, partitions[0].metadata], ['1', 'by hand']);
    const second = await new Reader(group).start({ topic, fromBeginning: true });
    await second.until(2);
    assert.deepEqual(second.values, ['b', 'c']);
  },

  'services: a shop of three services on topics that exist': async () => {
    await shop(await newTopic(), await newTopic());
  },

  'services: a shop of three services started on an empty broker': async () => {
    await shop(fresh('orders'), fresh('order-completed'));
  },

  'admin: createTopics, listTopics, fetchTopicMetadata, deleteTopics': async () => {
    const admin = await newAdmin();
    const topic = fresh('topic');
    assert.equal(await admin.createTopics({ topics: [{ topic, numPartitions: 3 }], waitForLeaders: true }), true);
    assert.equal(await admin.createTopics({ topics: [{ topic }] }), false);
    assert.ok((await admin.listTopics()).includes(topic));
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    assert.equal(topics[0].partitions.length, 3);
    await admin.deleteTopics({ topics: [topic] });
    while ((await admin.listTopics()).includes(topic)) await new Promise((resolve) => setTimeout(resolve, 50));
  },

  'admin: createPartitions': async () => {
    const admin = await newAdmin();
    const topic = await newTopic(2);
    await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] });
    let found = 0;
    while (found !== 5) found = (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length;
  },

  'admin: fetchTopicOffsets and fetchTopicOffsetsByTimestamp': async () => {
    const admin = await newAdmin();
    const topic = await newTopic();
    await send(topic, { value: 'a', timestamp: '1000' }, { value: 'b', timestamp: '2000' });
    const [offsets] = await admin.fetchTopicOffsets(topic);
    assert.deepEqual([offsets.low, offsets.high], ['0', '2']);
    const [byTime] = await admin.fetchTopicOffsetsByTimestamp(topic, 1500);
    assert.equal(byTime.offset, '1');
  },

  'admin: setOffsets, resetOffsets, fetchOffsets': async () => {
    const admin = await newAdmin();
    const topic = await newTopic();
    const groupId = fresh('group');
    await send(topic, 'a', 'b', 'c');
    const committed = async () => (await admin.fetchOffsets({ groupId, topics: [topic] }))[0].partitions[0].offset;
    await admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: '2' }] });
    assert.equal(await committed(), '2');
    await admin.resetOffsets({ groupId, topic, earliest: false });
    assert.equal(await committed(), '-1');
  },

  'admin: listGroups, describeGroups, deleteGroups': async () => {
    const admin = await newAdmin();
    const topic = await newTopic();
    const groupId = fresh('group');
    const reader = await new Reader(groupId).start({ topic, fromBeginning: true });
    await reader.when(() => reader.assigned.length === 1);
    assert.ok((await admin.listGroups()).groups.some((group) => group.groupId === groupId));
    const { groups } = await admin.describeGroups([groupId]);
    assert.deepEqual([groups[0].state, groups[0].members.length], ['Stable', 1]);
    await reader.consumer.disconnect();
    await admin.deleteGroups([groupId]);
    assert.ok(!(await admin.listGroups()).groups.some((group) => group.groupId === groupId));
  },

  'admin: describeConfigs': async () => {
    const admin = await newAdmin();
    const name = await newTopic();
    const { resources } = await admin.describeConfigs({
      includeSynonyms: false,
      resources: [{ type: ConfigResourceTypes.TOPIC, name, configNames: ['retention.ms'] }],
    });
    assert.equal(resources[0].configEntries[0].configValue, '604800000');
  },

  'admin: alterConfigs': async () => {
    const admin = await newAdmin();
    const name = await newTopic();
    const resource = { type: ConfigResourceTypes.TOPIC, name };
    const configEntries = [{ name: 'retention.ms', value: '12345' }];
    await admin.alterConfigs({ resources: [{ ...resource, configEntries }] });
    const wanted = { ...resource, configNames: ['retention.ms'] };
    let value;
    while (value !== '12345') {
      const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [wanted] });
      value = resources[0].configEntries[0].configValue;
    }
  },

  'admin: deleteTopicRecords': async () => {
    const admin = await newAdmin();
    const topic = await newTopic();
    await send(topic, 'a', 'b', 'c');
    await admin.fetchTopicOffsets(topic); // kafkajs deletes only in topics that this admin has seen
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '2' }] });
    assert.equal((await admin.fetchTopicOffsets(topic))[0].low, '2');
  },

  'admin: describeCluster': async () => {
    const admin = await newAdmin();
    const { brokers, clusterId, controller } = await admin.describeCluster();
    assert.equal(brokers.length, 1);
    assert.equal(controller, brokers[0].nodeId);
    assert.ok(clusterId.length > 0);
  },
};

// An order comes in, is processed, and its completion reaches the notifier, each service with its own group.
async function shop(orders, completed) {
  const producer = await newProducer();
  const processor = new Reader();
  const notifier = new Reader();
  await processor.start(
    { topic: orders, fromBeginning: true },
    {
      handler: async ({ message }) => {
        const order = JSON.parse(message.value.toString());
        const done = JSON.stringify({ orderId: order.orderId, status: 'completed' });
        await producer.send({ topic: completed, messages: [{ key: order.userId, value: done }] });
      },
    },
  );
  await notifier.start({ topic: completed, fromBeginning: true });
  for (const orderId of ['o-1', 'o-2', 'o-3']) {
    const order = JSON.stringify({ orderId, userId: 'user-1', timestamp: Date.now() });
    await producer.send({ topic: orders, messages: [{ key: 'user-1', value: order }] });
  }
  await notifier.until(3);
  const told = notifier.values.map((value) => JSON.parse(value));
  assert.deepEqual(told.map(({ orderId, status }) => `${orderId} ${status}`), [
    'o-1 completed',
    'o-2 completed',
    'o-3 completed',
  ]);
}

async function attempt(check) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${CHECK_DEADLINE_MS / 1000} s`)), CHECK_DEADLINE_MS);
  });
  try {
    await Promise.race([check(), late]);
    return { passed: true, detail: '' };
  } catch (error) {
    return { passed: false, detail: `${error.name}: ${error.message}`.replaceAll('\n', ' ').slice(0, 500) };
  } finally {
    clearTimeout(timer);
    await Promise.race([
      Promise.allSettled(opened.map((client) => client.disconnect())),
      new Promise((resolve) => setTimeout(resolve, 5000)),
    ]);
    opened = [];
  }
}

async function main() {
  process.on('unhandledRejection', () => {}); // a client that dies in the background fails its check by not delivering
  for (const [name, check] of Object.entries(checks)) {
    if (!name.includes(match)) continue;
    const began = process.hrtime.bigint();
    const verdict = await attempt(check);
    const seconds = Number(process.hrtime.bigint() - began) / 1e9;
    process.stdout.write(JSON.stringify({ name, ...verdict, seconds }) + '\n');
  }
  process.exit(0);
}

main();
