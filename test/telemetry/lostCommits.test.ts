import { CommitUnknown } from '../../src/database';
import type * as wire from '../../src/gen/sensorquery/v1/sensor_query_service';
import { newId } from '../../src/kernel/ids';
import { engines } from '../support/engines';
import { throughProxy, type PostgresProxy } from '../support/postgresProxy';
import { type QueryRoom, startQueryRoom, valueOf } from './queryRoom';
import { SendingDevice } from './sendingDevice';

// SQLite is in the same process: its commit is always answered.
describe.each(engines().filter(({ name }) => name === 'postgres'))('a commit whose answer is lost on $name', (engine) => {
  let proxy: PostgresProxy;
  let room: QueryRoom;
  let device: SendingDevice;
  let other: SendingDevice;
  let stream: ReturnType<QueryRoom['stream']>;
  let messages: AsyncIterator<wire.StreamReadingsResponse>;

  beforeAll(async () => {
    room = await startQueryRoom(throughProxy(engine, (started) => (proxy = started)));
    device = await SendingDevice.create(room, ['a']);
    other = await SendingDevice.create(room, ['a']);
  });
  beforeEach(async () => {
    room.devices.clock.advance(1000);
    stream = room.stream({ deviceIds: [device.deviceId, other.deviceId] });
    messages = stream[Symbol.asyncIterator]() as AsyncIterator<wire.StreamReadingsResponse>;
    await messages.next(); // from now on it is live
  });
  afterEach(() => stream.on('error', () => {}).cancel());
  afterAll(async () => await room.stop());

  async function shows(value: number): Promise<void> {
    for (;;) {
      const message = await messages.next();
      if (message.done) throw new Error('the stream has ended');
      if (message.value.readings.some((reading) => valueOf(reading) === value)) return;
    }
  }

  it('reaches who watches, and is not repeated', async () => {
    const identity = { kind: 'id', uplinkId: newId() } as const;
    proxy.breakCommit('answer_lost');
    await expect(device.send({ a: 1 }, { identity })).rejects.toMatchObject({ reason: 'database_unavailable', message: expect.stringContaining('nobody knows') as string });
    await shows(1);
    await expect(device.send({ a: 1 }, { identity })).rejects.toThrow('duplicate');
    await device.send({ a: 2 });
    await shows(2);
  });

  it('is not settled before the database is done with it', async () => {
    const { positions } = room.devices;
    const before = positions.watermark();
    proxy.breakCommit('late');
    const failure: unknown = await device.send({ a: 3 }).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(CommitUnknown);
    let isSettled = false;
    const settled = positions.settled().then(() => (isSettled = true));
    await other.send({ a: 4 }); // that of the same device would wait for the other one's rows
    await shows(4);
    expect(isSettled).toBe(false);
    const inDoubt = positions.watermark();
    proxy.deliverLate();
    await settled;
    expect(positions.watermark()).toBeGreaterThan(inDoubt);
    expect(inDoubt).toBeGreaterThanOrEqual(before);
    await shows(3);
  });

  it('is known to be none where the database refuses it', async () => {
    const { database } = room;
    const refused = database.transaction(async ({ knex }) => {
      await knex.raw('create temp table late_check (id int unique deferrable initially deferred) on commit drop');
      await knex.raw('insert into late_check values (1), (1)');
    });
    await expect(refused).rejects.toMatchObject({ code: '23505' });
  });
});
