import { KnownStatus } from '../../src/gen/gateway/v1/gateway_service';
import { ExecutionFeed } from '../../src/executions/watch/executionFeed';
import { engines, type TestDatabase } from '../support/engines';
import { type ExecutionRoom, prepare, startExecutionRoom } from './executionRoom';
import { TestGateway } from './testGateway';

const [sqlite] = engines();

/** How many entries the maps and sets hold that an object, or what it is made of, keeps under these names. */
function sizeOf(object: object, ...names: readonly string[]): number {
  const [name = '', ...rest] = names;
  const found = (object as Readonly<Record<string, unknown>>)[name];
  if (found instanceof Map || found instanceof Set) return found.size;
  if (typeof found !== 'object' || found === null) throw new Error(`there is no ${name}`);
  return sizeOf(found, ...rest);
}

describe('in memory', () => {
  let db: TestDatabase;
  let room: ExecutionRoom;
  beforeAll(async () => {
    db = await (sqlite as NonNullable<typeof sqlite>).createDatabase();
    await prepare(db.database);
    room = await startExecutionRoom(db.database);
  });
  afterAll(async () => {
    await room.stop();
    await db.drop();
  });
  const lines = (): number => sizeOf(room.executions, 'dispatcher', 'lines');
  const heldInVain = (): number => sizeOf(room.executions, 'heldInVain');

  it('nothing is kept for a connection that nobody is attached to', async () => {
    const connectionId = await room.connection();
    const gateway = await TestGateway.attach(room, { connectionId });
    const { executionId } = await room.execute(await room.target({ connectionId }));
    await gateway.command(1);
    expect(lines()).toBe(1);
    await gateway.cut();
    await room.log.until('gateway.detached');
    await room.executions.detached('org-1', connectionId); // it is the same to say it twice
    expect(lines()).toBe(0);
    const again = await TestGateway.attach(room, { connectionId, known: [{ executionId, status: KnownStatus.KNOWN_STATUS_ACCEPTED }] });
    const { executionId: next } = await room.execute(await room.target({ connectionId }));
    expect(await again.command(1)).toMatchObject({ executionId: next });
    await again.cut();
  });

  it('nothing is kept for a connection that was deleted', async () => {
    const connectionId = await room.connection();
    const { executionId } = await room.execute(await room.target({ connectionId }));
    room.clock.advance(60_000);
    await room.executions.sweep();
    await room.executions.attached({ organizationId: 'org-1', connectionId, peerId: 'gw', bootId: 'b', source: 'gateway:gw', durable: true, known: [{ executionId, evidence: { kind: 'transport_ok' } }] } as never);
    expect(heldInVain()).toBe(1);
    room.executions.connectionDeleted(connectionId);
    expect(heldInVain()).toBe(0);
  });

  it('nothing is kept of an organization that nobody watches', async () => {
    const feed = new ExecutionFeed();
    const watching = new AbortController();
    const [one, two] = [feed.open('org-1', watching.signal), feed.open('org-1', watching.signal)];
    feed.open('org-2', AbortSignal.abort());
    feed.notify('org-1');
    feed.notify('org-3');
    await Promise.all([one.news(), two.news()]);
    expect(sizeOf(feed, 'readers')).toBe(1);
    one.close();
    two.looks();
    const waiting = two.news();
    watching.abort();
    await waiting;
    expect(sizeOf(feed, 'readers')).toBe(0);
  });
});
