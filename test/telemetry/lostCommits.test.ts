import { CommitOutcomeUnknownError } from '../../src/database';
import type * as wire from '../../src/gen/sensorquery/v1/sensor_query_service';
import { newId } from '../../src/kernel/ids';
import { engines } from '../support/engines';
import { throughProxy, type PostgresProxy } from '../support/postgresProxy';
import { type QueryFixture, startQueryFixture, getValue } from './queryFixture';
import { SendingDevice } from './sendingDevice';

// SQLite runs in the same process, so its commit always gets a response.
describe.each(engines().filter(({ name }) => name === 'postgres'))(
  'a commit whose response is lost on $name',
  (engine) => {
    let proxy: PostgresProxy;
    let fixture: QueryFixture;
    let device: SendingDevice;
    let other: SendingDevice;
    let stream: ReturnType<QueryFixture['stream']>;
    let messages: AsyncIterator<wire.StreamReadingsResponse>;

    beforeAll(async () => {
      fixture = await startQueryFixture(throughProxy(engine, (started) => (proxy = started)));
      device = await SendingDevice.create(fixture, ['a']);
      other = await SendingDevice.create(fixture, ['a']);
    });
    beforeEach(async () => {
      fixture.devices.clock.advance(1000);
      stream = fixture.stream({ deviceIds: [device.deviceId, other.deviceId] });
      messages = stream[Symbol.asyncIterator]() as AsyncIterator<wire.StreamReadingsResponse>;
      await messages.next(); // The stream is live from here on.
    });
    afterEach(() => stream.on('error', () => {}).cancel());
    afterAll(async () => await fixture.stop());

    async function shows(value: number): Promise<void> {
      for (;;) {
        const message = await messages.next();
        if (message.done) throw new Error('the stream has ended');
        if (message.value.readings.some((reading) => getValue(reading) === value)) return;
      }
    }

    it('reaches watchers and is not repeated', async () => {
      const identity = { kind: 'id', uplinkId: newId() } as const;
      proxy.breakCommit('answer_lost');
      await expect(device.send({ a: 1 }, { identity })).rejects.toMatchObject({
        reason: 'database_unavailable',
        message: expect.stringContaining('it is unknown whether') as string,
      });
      await shows(1);
      await expect(device.send({ a: 1 }, { identity })).rejects.toThrow('duplicate');
      await device.send({ a: 2 });
      await shows(2);
    });

    it('is not settled before the database has finished it', async () => {
      const { positions } = fixture.devices;
      const before = positions.advanceGlobalWatermark();
      proxy.breakCommit('late');
      const failure: unknown = await device.send({ a: 3 }).catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(CommitOutcomeUnknownError);
      let isSettled = false;
      const settled = positions.waitUntilAllClosed().then(() => (isSettled = true));
      await other.send({ a: 4 }); // An uplink of the same device would wait for the rows of the first one.
      await shows(4);
      expect(isSettled).toBe(false);
      const inDoubt = positions.advanceGlobalWatermark();
      proxy.deliverLate();
      await settled;
      expect(positions.advanceGlobalWatermark()).toBeGreaterThan(inDoubt);
      expect(inDoubt).toBeGreaterThanOrEqual(before);
      await shows(3);
    });

    it('is known to have failed when the database rejects it', async () => {
      const { database } = fixture;
      const refused = database.transaction(async ({ knex }) => {
        await knex.raw('create temp table late_check (id int unique deferrable initially deferred) on commit drop');
        await knex.raw('insert into late_check values (1), (1)');
      });
      await expect(refused).rejects.toMatchObject({ code: '23505' });
    });
  },
);
