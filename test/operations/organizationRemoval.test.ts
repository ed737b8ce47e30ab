import { engines } from '../support/engines';
import { seenHttp } from '../support/http';
import { as, startTestApp, type TestApp } from '../support/testApp';
import { adminKey, filesOf, GoingSite, rowsOf } from './goingSite';

describe.each(engines())('an organization that is deleted, on $name', (engine) => {
  let server: TestApp;
  let going: GoingSite;
  let staying: GoingSite;
  beforeAll(async () => {
    server = await startTestApp(engine);
    [going, staying] = [await GoingSite.furnish(server, 'Going'), await GoingSite.furnish(server, 'Staying')];
  });
  afterAll(async () => {
    for (const site of [going, staying]) await (site as GoingSite | undefined)?.stop();
    await server.stop();
  });

  it('is gone at once for everybody, and then nothing of it is left; others lose nothing', async () => {
    const { database, dataDir } = server.database;
    const before = await rowsOf(database, staying.organizationId);
    expect(Object.entries(await rowsOf(database, going.organizationId)).filter(([table, rows]) => rows === 0 && !table.startsWith('stray'))).toEqual([]);
    expect(filesOf(dataDir, going.organizationId)).not.toEqual([]);
    const admin = as(await adminKey(server, server.organizationId), server.organizationId);
    const theirs = as(going.key, going.organizationId);
    const { devices } = (await going.http.get('/api/v2/devices', theirs)).json as { devices: { id: string }[] };
    const { images } = (await going.http.get(`/api/v2/devices/${devices[0]?.id}`, theirs)).json as { images: { url: string }[] };
    const link = new URL(images[0]?.url ?? '');
    expect((await staying.http.get(link.pathname + link.search)).status).toBe(200);
    const path = `/api/v2/organizations/${going.organizationId}`;
    const offer = await staying.http.send('DELETE', path, { headers: admin });
    expect(offer.json).toMatchObject({ deleted: false, devices: 2, connections: 1, members: 1, apiKeys: 1 });

    const confirmed = `${path}?name=Going&confirmation=${offer.json['confirmation'] as string}`;
    expect((await staying.http.send('DELETE', confirmed, { headers: admin })).json).toMatchObject({ deleted: true });
    expect((await staying.http.get(link.pathname + link.search)).status).toBe(404);
    const refused = seenHttp(await going.http.get('/api/v2/devices', theirs));
    expect([refused.code, refused.status]).toEqual([expect.stringMatching(/^api_key_(revoked|invalid)$/), 401]);
    expect(await going.gateway.ended).toMatchObject({ reason: expect.stringMatching(/^(api_key_revoked|api_key_invalid|connection_not_found)$/) });
    await server.log.until('organizations.removed');

    expect(Object.entries(await rowsOf(database, going.organizationId)).filter(([, rows]) => rows > 0)).toEqual([]);
    expect(filesOf(dataDir, going.organizationId)).toEqual([]);
    expect(await rowsOf(database, staying.organizationId)).toEqual(before);
    expect(filesOf(dataDir, staying.organizationId)).not.toEqual([]);
    expect((await staying.http.get('/api/v2/devices', as(staying.key, staying.organizationId))).json).toMatchObject({ total: 2 });
    expect((await staying.http.send('DELETE', path, { headers: admin })).status).toBe(404);
    expect(server.log.of('organizations.removal_failed')).toEqual([]);
    expect(server.log.of('executions.ended').filter((line) => line['organization_id'] === going.organizationId)).toMatchObject([{ detail: 'target_removed' }, { detail: 'target_removed' }]);
  });
});
