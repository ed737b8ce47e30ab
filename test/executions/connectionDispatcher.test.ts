import { ConnectionDispatcher } from '../../src/executions/dispatch/connectionDispatcher';
import { ExecutionRepository } from '../../src/executions/store/executionRepository';
import { ExecutionStore } from '../../src/executions/changes/executionStore';
import { Counter } from '../../src/kernel/counter';
import { engines, type TestDatabase } from '../support/engines';
import type { ExecutionFixture } from './executionFixture';
import { fixtureForAll } from './executionSuite';

describe.each(engines())('the dispatch line of a connection on $name', ({ createDatabase }) => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  fixtureForAll(createDatabase, (made) => ({ db, fixture } = made));

  it.each([true, false])('can be blocked between the commit and the sending: %s', async (isBarred) => {
    const connectionId = await fixture.connection();
    const { executionId } = await fixture.execute(await fixture.target({ connectionId }));
    const sent: string[] = [];
    const peer = { peerId: 'gw-1', bootId: 'boot-1', session: 1, capacity: 16 };
    const done = Promise.withResolvers<void>();
    const executionStore = new ExecutionStore({
      clock: fixture.clock,
      onCommitted: ([change]) => {
        if (change?.after.state === 'enqueued') done.resolve();
        else if (isBarred) line.cancelUnsent(executionId);
      },
    });
    const hub = {
      cancelUnsent: () => false,
      peer: () => peer,
      send: async ({ executionId: id }: { readonly executionId: string }) => {
        await Promise.resolve(sent.push(id));
        done.resolve();
        return 'sent' as const;
      },
    };
    const line = new ConnectionDispatcher(
      { database: db.database, executionStore, hub, dispatches: new Counter(), clock: fixture.clock, log: fixture.log },
      'org-1',
      connectionId,
    );
    line.wake();
    await done.promise;
    expect(line.cancelUnsent(executionId)).toBe(false);
    await line.stop();
    const { state, attempts } = await new ExecutionRepository(db.database.db).get('org-1', executionId);
    expect({ state, attempts, sent }).toEqual(
      isBarred
        ? { state: 'enqueued', attempts: 1, sent: [] }
        : { state: 'in_transit', attempts: 1, sent: [executionId] },
    );
  });
});
