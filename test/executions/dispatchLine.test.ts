import { DispatchLine } from '../../src/executions/dispatch/dispatchLine';
import { ExecutionRepository } from '../../src/executions/store/executionRepository';
import { Ledger } from '../../src/executions/ledger/ledger';
import { Tally } from '../../src/kernel/tally';
import { engines, type TestDatabase } from '../support/engines';
import type { ExecutionRoom } from './executionRoom';
import { roomForAll } from './executionSuite';

describe.each(engines())('the way out of a connection on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let room: ExecutionRoom;
  roomForAll(createDatabase, (made) => ({ db, room } = made));

  it.each([true, false])('can be barred between the commit and the sending: %s', async (isBarred) => {
    const connectionId = await room.connection();
    const { executionId } = await room.execute(await room.target({ connectionId }));
    const sent: string[] = [];
    const peer = { peerId: 'gw-1', bootId: 'boot-1', session: 1, capacity: 16 };
    const done = Promise.withResolvers<void>();
    const ledger = new Ledger({
      clock: room.clock,
      onCommitted: ([change]) => {
        if (change?.after.state === 'enqueued') done.resolve();
        else if (isBarred) line.takeBack(executionId);
      },
    });
    const hub = {
      peer: () => peer,
      send: async ({ executionId: id }: { readonly executionId: string }) => {
        await Promise.resolve(sent.push(id));
        done.resolve();
        return 'sent' as const;
      },
    };
    const line = new DispatchLine({ database: db.database, ledger, hub, dispatches: new Tally(), clock: room.clock, log: room.log }, 'org-1', connectionId);
    line.wake();
    await done.promise;
    expect(line.takeBack(executionId)).toBe(false);
    await line.stop();
    const { state, attempts } = await new ExecutionRepository(db.database.db).get('org-1', executionId);
    expect({ state, attempts, sent }).toEqual(isBarred ? { state: 'enqueued', attempts: 1, sent: [] } : { state: 'in_transit', attempts: 1, sent: [executionId] });
  });
});
