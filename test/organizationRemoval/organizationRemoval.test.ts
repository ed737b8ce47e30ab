import { engines } from '../support/engines';
import { parseHttpError } from '../support/http';
import { as, startTestApp, type TestApp } from '../support/testApp';
import { createAdminKey, listFiles, PopulatedSite, getRows } from '../backup/populatedSite';

describe.each(engines())('a deleted organization on $name', (engine) => {
  let server: TestApp;
  let site: PopulatedSite;
  let staying: PopulatedSite;
  beforeAll(async () => {
    server = await startTestApp(engine);
    [site, staying] = [await PopulatedSite.create(server, 'Going'), await PopulatedSite.create(server, 'Staying')];
  });
  afterAll(async () => {
    for (const each of [site, staying]) await (each as PopulatedSite | undefined)?.stop();
    await server.stop();
  });

  it('disappears at once for all callers, then nothing of it is left, and others lose nothing', async () => {
    const { database, dataDir } = server.database;
    const before = await getRows(database, staying.organizationId);
    expect(
      Object.entries(await getRows(database, site.organizationId)).filter(
        ([table, rows]) => rows === 0 && !table.startsWith('stray'),
      ),
    ).toEqual([]);
    expect(listFiles(dataDir, site.organizationId)).not.toEqual([]);
    const admin = as(await createAdminKey(server, server.organizationId), server.organizationId);
    const siteHeaders = as(site.key, site.organizationId);
    const { devices } = (await site.http.get('/api/v2/devices', siteHeaders)).json as { devices: { id: string }[] };
    const { images } = (await site.http.get(`/api/v2/devices/${devices[0]?.id}`, siteHeaders)).json as {
      images: { url: string }[];
    };
    const link = new URL(images[0]?.url ?? '');
    expect((await staying.http.get(link.pathname + link.search)).status).toBe(200);
    const path = `/api/v2/organizations/${site.organizationId}`;
    const offer = await staying.http.send('DELETE', path, { headers: admin });
    expect(offer.json).toMatchObject({ deleted: false, devices: 2, connections: 1, members: 1, apiKeys: 1 });

    const confirmed = `${path}?name=Going&confirmation=${offer.json['confirmation'] as string}`;
    expect((await staying.http.send('DELETE', confirmed, { headers: admin })).json).toMatchObject({ deleted: true });
    expect((await staying.http.get(link.pathname + link.search)).status).toBe(404);
    const refused = parseHttpError(await site.http.get('/api/v2/devices', siteHeaders));
    expect([refused.code, refused.status]).toEqual([expect.stringMatching(/^api_key_(revoked|invalid)$/), 401]);
    expect(await site.gateway.ended).toMatchObject({
      reason: expect.stringMatching(/^(api_key_revoked|api_key_invalid|connection_not_found)$/),
    });
    await server.log.until('organizations.removed');

    expect(Object.entries(await getRows(database, site.organizationId)).filter(([, rows]) => rows > 0)).toEqual([]);
    expect(listFiles(dataDir, site.organizationId)).toEqual([]);
    expect(await getRows(database, staying.organizationId)).toEqual(before);
    expect(listFiles(dataDir, staying.organizationId)).not.toEqual([]);
    expect((await staying.http.get('/api/v2/devices', as(staying.key, staying.organizationId))).json).toMatchObject({
      total: 2,
    });
    expect((await staying.http.send('DELETE', path, { headers: admin })).status).toBe(404);
    expect(server.log.of('organizations.removal_failed')).toEqual([]);
    expect(
      server.log.of('executions.completed').filter((line) => line['organization_id'] === site.organizationId),
    ).toMatchObject([{ detail: 'device_removed' }, { detail: 'device_removed' }]);
  });
});
