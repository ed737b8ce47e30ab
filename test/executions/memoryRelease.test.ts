import { CommandSnapshotStatus } from '../../src/gen/gateway/v1/gateway_service';
import { ChangeFeed } from '../../src/kernel/changeFeed';
import { engines, type TestDatabase } from '../support/engines';
import { type ExecutionFixture, prepare, startExecutionFixture } from './executionFixture';
import { TestGateway } from './testGateway';

const [sqlite] = engines();

/** Returns the size of the map or set that an object, or one of its parts, has under these names. */
function getSize(object: object, ...names: readonly string[]): number {
  const [name = '', ...rest] = names;
  const found = (object as Readonly<Record<string, unknown>>)[name];
  if (found instanceof Map || found instanceof Set) return found.size;
  if (typeof found !== 'object' || found === null) throw new Error(`there is no ${name}`);
  return getSize(found, ...rest);
}

describe('the memory', () => {
  let db: TestDatabase;
  let fixture: ExecutionFixture;
  beforeAll(async () => {
    db = await (sqlite as NonNullable<typeof sqlite>).createDatabase();
    await prepare(db.database);
    fixture = await startExecutionFixture(db.database);
  });
  afterAll(async () => {
    await fixture.stop();
    await db.drop();
  });
  const countDispatchers = (): number => getSize(fixture.executions, 'dispatcher', 'dispatchers');
  const countFinalIdsAtPeer = (): number => getSize(fixture.executions, 'finalIdsAtPeer');

  it('holds nothing for a connection without a gateway', async () => {
    const connectionId = await fixture.connection();
    const gateway = await TestGateway.attach(fixture, { connectionId });
    const { executionId } = await fixture.execute(await fixture.target({ connectionId }));
    await gateway.command(1);
    expect(countDispatchers()).toBe(1);
    await gateway.cut();
    await fixture.log.until('gateway.detached');
    await fixture.executions.detached('org-1', connectionId); // Repeating the request makes no difference.
    expect(countDispatchers()).toBe(0);
    const again = await TestGateway.attach(fixture, {
      connectionId,
      known: [{ executionId, status: CommandSnapshotStatus.COMMAND_SNAPSHOT_STATUS_ACCEPTED }],
    });
    const { executionId: next } = await fixture.execute(await fixture.target({ connectionId }));
    expect(await again.command(1)).toMatchObject({ executionId: next });
    await again.cut();
  });

  it('holds nothing for a deleted connection', async () => {
    const connectionId = await fixture.connection();
    const { executionId } = await fixture.execute(await fixture.target({ connectionId }));
    fixture.clock.advance(60_000);
    await fixture.executions.deadlines.sweep();
    await fixture.executions.evidenceService.attached({
      organizationId: 'org-1',
      connectionId,
      peerId: 'gw',
      bootId: 'b',
      source: 'gateway:gw',
      durable: true,
      known: [{ executionId, evidence: { kind: 'transport_ok' } }],
    } as never);
    expect(countFinalIdsAtPeer()).toBe(1);
    fixture.executions.connectionDeleted(connectionId);
    expect(countFinalIdsAtPeer()).toBe(0);
  });

  it('holds nothing for an organization without watchers', async () => {
    const feed = new ChangeFeed();
    const watching = new AbortController();
    const [one, two] = [feed.subscribe('org-1', watching.signal), feed.subscribe('org-1', watching.signal)];
    feed.subscribe('org-2', AbortSignal.abort());
    feed.notify('org-1');
    feed.notify('org-3');
    await Promise.all([one.waitForChange(), two.waitForChange()]);
    expect(getSize(feed, 'subscriptions')).toBe(1);
    one.close();
    two.markRead();
    const waiting = two.waitForChange();
    watching.abort();
    await waiting;
    expect(getSize(feed, 'subscriptions')).toBe(0);
  });
});
