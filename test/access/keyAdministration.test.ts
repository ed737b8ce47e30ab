import { accessRepositories, bootstrap, openCursors, type KeyFromCommandLine } from '../../src/access';
import { UnitOfWork } from '../../src/database';
import { silentLogger } from '../../src/kernel/logger';
import { SCOPES } from '../../src/kernel/scopes';
import { engines, type TestDatabase } from '../support/engines';
import { TestClock } from '../support/testClock';
import { openAccess, type AccessProcess } from './accessRoom';

const PEER = '192.0.2.7';
const A_DAY = 24 * 60 * 60_000;

const wanted = (overrides: Partial<KeyFromCommandLine> = {}): KeyFromCommandLine => ({ name: 'Key', scopes: ['devices:read'], connectionIds: [], allConnections: false, expiresAt: undefined, isAdmin: false, ownerUserId: undefined, ...overrides });

describe.each(engines())('the command line on $name', (engine) => {
  let db: TestDatabase;
  let clock: TestClock;
  let room: AccessProcess;
  beforeEach(async () => {
    db = await engine.createDatabase();
    clock = new TestClock();
    room = openAccess(db.database, clock, silentLogger);
  });
  afterEach(async () => {
    await room.authentication.close();
    await db.drop();
  });

  const reason = async (key: string): Promise<string> => {
    try {
      await room.authentication.authenticate(key, PEER);
      return 'passed';
    } catch (error) {
      return (error as { reason: string }).reason;
    }
  };

  it('makes an organization, a user and a key with every scope on the first start, and never again', async () => {
    const first = await bootstrap(room.uow, clock);
    expect(first).toMatchObject({ organization: { name: 'Plantroom' }, user: { name: 'Administrator' }, apiKey: { scopes: [...SCOPES], allConnections: true, isAdmin: false, expiresAt: undefined } });
    expect(await reason(first?.key ?? '')).toBe('passed');
    expect(await bootstrap(room.uow, clock)).toBeUndefined();
    expect(await room.organizations.list()).toHaveLength(1);
  });

  it('does that once when two servers start at once on one database', async () => {
    const elsewhere = await db.open();
    const made = await Promise.all([bootstrap(room.uow, clock), bootstrap(new UnitOfWork(elsewhere, accessRepositories), clock)]);
    await elsewhere.close();
    expect(made.filter((one) => one !== undefined)).toHaveLength(1);
    expect(await room.users.list()).toHaveLength(1);
  });

  it('makes nothing on a database that somebody set up by hand', async () => {
    const one = await room.users.create('Kim', '');
    await room.organizations.create('By hand');
    expect(await bootstrap(room.uow, clock)).toBeUndefined();
    expect(await room.users.list()).toEqual([one]);
  });

  it('takes a name of an organization as often as it comes, and refuses what is none', async () => {
    await expect(room.organizations.create('Site')).rejects.toMatchObject({ reason: 'user_ambiguous' });
    await room.users.create('Kim', '');
    expect(await room.organizations.create('  Straße 5 ')).toMatchObject({ name: 'Straße 5' });
    expect(await room.organizations.create('Straße 5')).toMatchObject({ name: 'Straße 5' });
    for (const name of ['', ' ', 'a\u0000b', 'line\nbreak', 'x'.repeat(256)]) await expect(room.organizations.create(name)).rejects.toMatchObject({ reason: 'validation_failed', violations: [{ field: 'name' }] });
    await room.organizations.create('🌡'.repeat(255));
  });

  it('picks the only organization and the only user, and asks when there are several or none', async () => {
    await expect(room.organizations.pick(undefined)).rejects.toMatchObject({ reason: 'organization_ambiguous' });
    const one = await room.users.create('Kim', 'kim@site.example');
    const organization = await room.organizations.create('One');
    expect(await room.organizations.pick(undefined)).toEqual(organization);
    await room.organizations.create('Two');
    await expect(room.organizations.pick(undefined)).rejects.toMatchObject({ reason: 'organization_ambiguous' });
    await expect(room.organizations.pick('no-such')).rejects.toMatchObject({ reason: 'organization_not_found' });

    expect((await room.keys.create(organization.id, wanted())).apiKey.ownerUserId).toBe(one.id);
    const two = await room.users.create('Lou', '');
    expect((await room.keys.create(organization.id, wanted())).apiKey.ownerUserId).toBe(one.id);
    await expect(room.keys.create(organization.id, wanted({ ownerUserId: two.id }))).rejects.toMatchObject({ violations: [{ field: 'ownerUserId' }] });
    await room.uow.repos.members.create(organization.id, { userId: two.id, roleId: 'viewer', at: clock.now() });
    await expect(room.keys.create(organization.id, wanted())).rejects.toMatchObject({ reason: 'user_ambiguous' });
    expect((await room.keys.create(organization.id, wanted({ ownerUserId: two.id }))).apiKey.ownerUserId).toBe(two.id);
    await expect(room.keys.create(organization.id, wanted({ ownerUserId: two.id, scopes: ['devices:read', 'devices:write'] }))).rejects.toMatchObject({ violations: [{ field: 'scopes[1]', description: expect.stringContaining('Viewer') }] });
    await expect(room.keys.create(organization.id, wanted({ ownerUserId: 'no-such' }))).rejects.toMatchObject({ reason: 'user_not_found' });
    await expect(room.keys.create('no-such', wanted())).rejects.toMatchObject({ reason: 'organization_not_found' });
    expect(await room.users.list()).toEqual([one, two]);
    await expect(room.users.create('Kim', 'not an address')).rejects.toMatchObject({ violations: [{ field: 'email' }] });
  });

  it('checks what a key may do, and makes admin keys', async () => {
    await room.users.create('Kim', '');
    const organization = await room.organizations.create('Site');
    const { apiKey } = await room.keys.create(organization.id, wanted({ isAdmin: true, scopes: ['devices:read', 'devices:read'] }));
    expect(apiKey).toMatchObject({ isAdmin: true, scopes: ['devices:read'] });
    await expect(room.keys.create(organization.id, wanted({ scopes: [] }))).rejects.toMatchObject({ violations: [{ field: 'scopes' }] });
    await expect(room.keys.create(organization.id, wanted({ scopes: ['gateways:write', 'x'], connectionIds: ['no-such'] }))).rejects.toMatchObject({ violations: [{ field: 'scopes[1]' }, { field: 'connectionIds[0]' }] });
  });

  it('rotates a key: the new one works at once, the old one for the grace period', async () => {
    const { key, apiKey, organization } = await site();
    const rotated = await room.keys.rotate(organization, apiKey.id);
    expect(rotated.apiKey).toMatchObject({ name: 'Key', scopes: ['gateways:write'], connectionIds: ['connection-1'], ownerUserId: apiKey.ownerUserId, expiresAt: undefined });
    expect([await reason(key), await reason(rotated.key)]).toEqual(['passed', 'passed']);
    clock.advance(A_DAY - 1);
    expect(await reason(key)).toBe('passed');
    clock.advance(1);
    expect([await reason(key), await reason(rotated.key)]).toEqual(['api_key_expired', 'passed']);
    await expect(room.keys.rotate(organization, apiKey.id, 0)).rejects.toMatchObject({ kind: 'conflict', reason: 'api_key_ended' });
  });

  it('rotates without grace: the old key ends at once, in this process too', async () => {
    const { key, apiKey, organization } = await site();
    expect(await reason(key)).toBe('passed');
    const rotated = await room.keys.rotate(organization, apiKey.id, 0);
    expect([await reason(key), await reason(rotated.key)]).toEqual(['api_key_expired', 'passed']);
    await expect(room.keys.rotate(organization, rotated.apiKey.id, -1)).rejects.toMatchObject({ violations: [{ field: 'grace' }] });
    await expect(room.keys.rotate(organization, 'no-such', 0)).rejects.toMatchObject({ reason: 'api_key_not_found' });
  });

  it('never lets a rotation lengthen the life of the old key, nor of the new one', async () => {
    const end = clock.now() + 1000;
    const { apiKey, organization } = await site(end);
    const rotated = await room.keys.rotate(organization, apiKey.id);
    expect((await room.keys.list(organization)).map(({ expiresAt }) => expiresAt)).toEqual([end, end]);
    expect(rotated.apiKey.expiresAt).toBe(end);
  });

  it('signs page tokens with one secret, also when two servers make it at once', async () => {
    const elsewhere = await db.open();
    const [one, two] = await Promise.all([openCursors(room.uow), openCursors(new UnitOfWork(elsewhere, accessRepositories))]);
    await elsewhere.close();
    const token = one.encode(['list'], { id: 'a' });
    expect(two.decode(['list'], token, 'pageToken')).toEqual({ id: 'a' });
    expect((await openCursors(room.uow)).decode(['list'], token, 'pageToken')).toEqual({ id: 'a' });
  });

  async function site(expiresAt?: number): Promise<{ key: string; apiKey: { id: string; ownerUserId: string }; organization: string }> {
    await room.users.create('Kim', '');
    const organization = await room.organizations.create('Site');
    const issued = await room.keys.create(organization.id, wanted({ scopes: ['gateways:write'], connectionIds: ['connection-1'], expiresAt }));
    return { ...issued, organization: organization.id };
  }
});
