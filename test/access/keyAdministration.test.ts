import { createAccessRepositories, bootstrap, openCursors, type KeyFromCommandLine } from '../../src/access';
import { UnitOfWork } from '../../src/database';
import { silentLogger } from '../../src/kernel/logger';
import { SCOPES } from '../../src/kernel/scopes';
import { engines, type TestDatabase } from '../support/engines';
import { TestClock } from '../support/testClock';
import { openAccess, type AccessProcess } from './accessFixture';

const PEER = '192.0.2.7';
const A_DAY = 24 * 60 * 60_000;

const buildKey = (overrides: Partial<KeyFromCommandLine> = {}): KeyFromCommandLine => ({
  name: 'Key',
  scopes: ['devices:read'],
  connectionIds: [],
  allConnections: false,
  expiresAt: undefined,
  isAdmin: false,
  ownerUserId: undefined,
  ...overrides,
});

describe.each(engines())('the command line on $name', (engine) => {
  let db: TestDatabase;
  let clock: TestClock;
  let fixture: AccessProcess;
  beforeEach(async () => {
    db = await engine.createDatabase();
    clock = new TestClock();
    fixture = openAccess(db.database, clock, silentLogger);
  });
  afterEach(async () => {
    await fixture.authentication.usage.close();
    await db.drop();
  });

  const reason = async (key: string): Promise<string> => {
    try {
      await fixture.authentication.authenticate(key, PEER);
      return 'passed';
    } catch (error) {
      return (error as { reason: string }).reason;
    }
  };

  it('creates an organization, a user and a key with every scope on the first start only', async () => {
    const first = await bootstrap(fixture.uow, clock);
    expect(first).toMatchObject({
      organization: { name: 'Plantroom' },
      user: { name: 'Administrator' },
      apiKey: { scopes: [...SCOPES], allConnections: true, isAdmin: false, expiresAt: undefined },
    });
    expect(await reason(first?.key ?? '')).toBe('passed');
    expect(await bootstrap(fixture.uow, clock)).toBeUndefined();
    expect(await fixture.organizations.list()).toHaveLength(1);
  });

  it('creates them once when two servers start at once on one database', async () => {
    const otherDatabase = await db.open();
    const created = await Promise.all([
      bootstrap(fixture.uow, clock),
      bootstrap(new UnitOfWork(otherDatabase, createAccessRepositories), clock),
    ]);
    await otherDatabase.close();
    expect(created.filter((one) => one !== undefined)).toHaveLength(1);
    expect(await fixture.users.list()).toHaveLength(1);
  });

  it('creates nothing on a database that was set up by hand', async () => {
    const one = await fixture.users.create('Kim', '');
    await fixture.organizations.create('By hand');
    expect(await bootstrap(fixture.uow, clock)).toBeUndefined();
    expect(await fixture.users.list()).toEqual([one]);
  });

  it('accepts any name of an organization more than once, and rejects an invalid one', async () => {
    await expect(fixture.organizations.create('Site')).rejects.toMatchObject({ reason: 'user_ambiguous' });
    await fixture.users.create('Kim', '');
    expect(await fixture.organizations.create('  Straße 5 ')).toMatchObject({ name: 'Straße 5' });
    expect(await fixture.organizations.create('Straße 5')).toMatchObject({ name: 'Straße 5' });
    for (const name of ['', ' ', 'a\u0000b', 'line\nbreak', 'x'.repeat(256)])
      await expect(fixture.organizations.create(name)).rejects.toMatchObject({
        reason: 'validation_failed',
        violations: [{ field: 'name' }],
      });
    await fixture.organizations.create('🌡'.repeat(255));
  });

  it('picks the only organization and the only user, and asks when there are several or none', async () => {
    await expect(fixture.organizations.getByIdOrOnly(undefined)).rejects.toMatchObject({
      reason: 'organization_ambiguous',
    });
    const one = await fixture.users.create('Kim', 'kim@site.example');
    const organization = await fixture.organizations.create('One');
    expect(await fixture.organizations.getByIdOrOnly(undefined)).toEqual(organization);
    const second = await fixture.organizations.create('Two');
    await expect(fixture.organizations.getByIdOrOnly(undefined)).rejects.toMatchObject({
      reason: 'organization_ambiguous',
      message: expect.stringContaining(`${second.id} (Two)`) as string,
    });
    await expect(fixture.organizations.getByIdOrOnly('no-such')).rejects.toMatchObject({
      reason: 'organization_not_found',
    });

    expect((await fixture.keys.create(organization.id, buildKey())).apiKey.ownerUserId).toBe(one.id);
    const two = await fixture.users.create('Lou', '');
    expect((await fixture.keys.create(organization.id, buildKey())).apiKey.ownerUserId).toBe(one.id);
    await expect(fixture.keys.create(organization.id, buildKey({ ownerUserId: two.id }))).rejects.toMatchObject({
      violations: [{ field: 'ownerUserId' }],
    });
    await fixture.uow.repos.members.create(organization.id, { userId: two.id, roleId: 'viewer', at: clock.now() });
    expect((await fixture.keys.create(organization.id, buildKey())).apiKey.ownerUserId).toBe(one.id);
    expect((await fixture.keys.create(organization.id, buildKey({ ownerUserId: two.id }))).apiKey.ownerUserId).toBe(
      two.id,
    );
    await expect(
      fixture.keys.create(
        organization.id,
        buildKey({ ownerUserId: two.id, scopes: ['devices:read', 'devices:write'] }),
      ),
    ).rejects.toMatchObject({ violations: [{ field: 'scopes[1]', description: expect.stringContaining('Viewer') }] });
    await expect(fixture.keys.create(organization.id, buildKey({ ownerUserId: 'no-such' }))).rejects.toMatchObject({
      reason: 'user_not_found',
    });
    await expect(fixture.keys.create('no-such', buildKey())).rejects.toMatchObject({
      reason: 'organization_not_found',
    });
    expect(await fixture.users.list()).toEqual([one, two]);
    await expect(fixture.users.create('Kim', 'not an address')).rejects.toMatchObject({
      violations: [{ field: 'email' }],
    });
  });

  it('validates the grant of a key, and creates admin keys', async () => {
    await fixture.users.create('Kim', '');
    const organization = await fixture.organizations.create('Site');
    const { apiKey } = await fixture.keys.create(
      organization.id,
      buildKey({ isAdmin: true, scopes: ['devices:read', 'devices:read'] }),
    );
    expect(apiKey).toMatchObject({ isAdmin: true, scopes: ['devices:read'] });
    await expect(fixture.keys.create(organization.id, buildKey({ scopes: [] }))).rejects.toMatchObject({
      violations: [{ field: 'scopes' }],
    });
    await expect(
      fixture.keys.create(organization.id, buildKey({ scopes: ['gateways:write', 'x'], connectionIds: ['no-such'] })),
    ).rejects.toMatchObject({ violations: [{ field: 'scopes[1]' }, { field: 'connectionIds[0]' }] });
  });

  it('rotates a key: the new one works at once, the old one until the grace period is over', async () => {
    const { key, apiKey, organization } = await site();
    const rotated = await fixture.keys.rotate(organization, apiKey.id);
    expect(rotated.apiKey).toMatchObject({
      name: 'Key',
      scopes: ['gateways:write'],
      connectionIds: ['connection-1'],
      ownerUserId: apiKey.ownerUserId,
      expiresAt: undefined,
    });
    expect([await reason(key), await reason(rotated.key)]).toEqual(['passed', 'passed']);
    clock.advance(A_DAY - 1);
    expect(await reason(key)).toBe('passed');
    clock.advance(1);
    expect([await reason(key), await reason(rotated.key)]).toEqual(['api_key_expired', 'passed']);
    await expect(fixture.keys.rotate(organization, apiKey.id, 0)).rejects.toMatchObject({
      kind: 'conflict',
      reason: 'api_key_inactive',
    });
  });

  it('rotates without grace: the old key expires at once, in this process too', async () => {
    const { key, apiKey, organization } = await site();
    expect(await reason(key)).toBe('passed');
    const rotated = await fixture.keys.rotate(organization, apiKey.id, 0);
    expect([await reason(key), await reason(rotated.key)]).toEqual(['api_key_expired', 'passed']);
    await expect(fixture.keys.rotate(organization, rotated.apiKey.id, -1)).rejects.toMatchObject({
      violations: [{ field: 'grace' }],
    });
    await expect(fixture.keys.rotate(organization, 'no-such', 0)).rejects.toMatchObject({
      reason: 'api_key_not_found',
    });
  });

  it('never lengthens the life of the old or the new key by a rotation', async () => {
    const end = clock.now() + 1000;
    const { apiKey, organization } = await site(end);
    const rotated = await fixture.keys.rotate(organization, apiKey.id);
    expect((await fixture.keys.list(organization)).map(({ expiresAt }) => expiresAt)).toEqual([end, end]);
    expect(rotated.apiKey.expiresAt).toBe(end);
  });

  it('signs page tokens with one secret, also when two servers create it at once', async () => {
    const otherDatabase = await db.open();
    const [one, two] = await Promise.all([
      openCursors(fixture.uow),
      openCursors(new UnitOfWork(otherDatabase, createAccessRepositories)),
    ]);
    await otherDatabase.close();
    const token = one.encode(['list'], { id: 'a' });
    expect(two.decode(['list'], token, 'pageToken')).toEqual({ id: 'a' });
    expect((await openCursors(fixture.uow)).decode(['list'], token, 'pageToken')).toEqual({ id: 'a' });
  });

  async function site(
    expiresAt?: number,
  ): Promise<{ key: string; apiKey: { id: string; ownerUserId: string }; organization: string }> {
    await fixture.users.create('Kim', '');
    const organization = await fixture.organizations.create('Site');
    const issued = await fixture.keys.create(
      organization.id,
      buildKey({ scopes: ['gateways:write'], connectionIds: ['connection-1'], expiresAt }),
    );
    return { ...issued, organization: organization.id };
  }
});
