import { join } from 'node:path';
import { DigitalDeviceServiceService } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { sqliteOnly } from '../support/engines';
import { parseHttpError } from '../support/http';
import { exampleChirpStack } from '../support/profileFolders';
import { httpWays, buildRequest, requestJson } from '../support/restCalls';
import { as, descriptors, encode, type Fields } from '../support/testApp';
import { ProfileSite, VALVE } from './profileSite';

const { getDeviceProfileTemplate, listDeviceProfiles } = DigitalDeviceServiceService;
/** Part of everything that the other organization names. */
const MARK = 'zephyr';
const { brand, model, band } = VALVE;
const REQUESTS: readonly (readonly [path: string, fields: Fields])[] = [
  [getDeviceProfileTemplate.path, { brand, model, band }],
  [
    getDeviceProfileTemplate.path,
    { brand: 'NORTHMOOR Instruments', model: 'Valve 2', band: 'as_923_3', firmwareVersion: '2.0' },
  ],
  [getDeviceProfileTemplate.path, { brand, model, band: 'KR920' }],
  [getDeviceProfileTemplate.path, { brand, model: MARK, band }],
  [getDeviceProfileTemplate.path, { brand: MARK, model, band }],
  [getDeviceProfileTemplate.path, { brand, model }],
  [listDeviceProfiles.path, {}],
  [listDeviceProfiles.path, { search: MARK }],
  [listDeviceProfiles.path, { search: 'valve', band, pageSize: 1 }],
  [listDeviceProfiles.path, { brand: 'no such brand' }],
  [listDeviceProfiles.path, { band: 'no such band' }],
];

describe.each(sqliteOnly())('device profiles and two organizations, on $name', (engine) => {
  let site: ProfileSite;
  let own: Record<string, string>;
  let their: Record<string, string>;
  beforeAll(async () => {
    site = await ProfileSite.start(engine);
    own = site.headers;
    const otherId = await site.server.organization('Other');
    their = as((await site.server.newKey(otherId)).key, otherId);
    await site.importEdition(1);
  });
  afterAll(async () => await site.stop());

  /** Returns the responses to a caller on every route. */
  const everything = async (caller: Record<string, string>): Promise<string[]> => {
    const answers: string[] = [];
    for (const [path, fields] of REQUESTS) {
      const descriptor = descriptors.methods.get(path);
      if (!descriptor) throw new Error(`there is no ${path}`);
      const { code, answer, error } = await site.server.send(descriptor, encode(descriptor.request, fields), caller);
      answers.push(`${path} ${code} ${error?.reason} ${error?.message} ${answer?.toString('hex')}`);
      for (const way of httpWays(descriptor)) {
        const { url, body } = buildRequest(way, requestJson(descriptor, fields));
        const { status, body: content } = await site.http.send(way.verb, url, {
          headers: { ...caller, 'x-request-id': 'shared' },
          ...(body && { body }),
        });
        answers.push(`${way.verb} ${url} ${status} ${content.toString()}`);
      }
    }
    return answers;
  };

  it('answer both organizations alike, without information about the devices of the other', async () => {
    const before = await everything(their);
    expect(await everything(own)).toEqual(before);
    expect(before.filter((answer) => answer.includes(VALVE.id)).length).toBeGreaterThan(8);
    expect(before.filter((answer) => answer.includes('profile_not_found')).length).toBe(9);
    await site.valve(await site.connection('gateway'), `${MARK}-1`);
    expect(await everything(their)).toEqual(before);
    expect(await everything(own)).toEqual(before);
  });

  it('are available to restricted keys but not to keys without devices:read', async () => {
    const { id } = await site.http.call<{ id: string }>('POST', '/api/v2/devices', { name: `${MARK} 2` });
    const limited = async (restrictions: Fields): Promise<Record<string, string>> =>
      as(
        (
          await site.http.call<{ key: string }>('POST', '/api/v2/api-keys', {
            name: 'Limited',
            scopes: ['devices:read'],
            restrictions,
          })
        ).key,
        site.server.organizationId,
      );
    expect(await everything(await limited({ deviceIds: [id] }))).toEqual(await everything(their));
    const { key } = await site.server.newKey(site.server.organizationId, {
      scopes: ['commands:read', 'devices:write'],
    });
    const refused = await everything(as(key, site.server.organizationId));
    expect(refused.filter((answer) => !answer.includes('insufficient_scope'))).toEqual([]);
  });

  it('record in each trail an import that changed something, and none that did not', async () => {
    const trail = async (caller: Record<string, string>): Promise<unknown[]> => {
      const { json } = await site.http.get('/api/v2/audit-events?resource=device-profiles', caller);
      const events = json['events'] as { method: string; outcome: string; actor: string }[];
      return events.filter(({ actor }) => actor === 'command_line').map(({ method, outcome }) => [method, outcome]);
    };
    const once = [['profiles import', 'succeeded']];
    expect([await trail(own), await trail(their)]).toEqual([once, once]);
    await site.importEdition(1);
    expect([await trail(own), await trail(their)]).toEqual([once, once]);
    await site.importEdition(2);
    expect([await trail(own), await trail(their)]).toEqual([
      [...once, ...once],
      [...once, ...once],
    ]);
  });

  it('issue no page token that another organization can use', async () => {
    expect((await site.profiles('import', exampleChirpStack(join(site.folder, 'more')))).code).toBe(0);
    const { json } = await site.http.get('/api/v2/device-profiles?pageSize=2', own);
    const next = `/api/v2/device-profiles?pageSize=2&pageToken=${encodeURIComponent(String(json['nextPageToken']))}`;
    expect((await site.http.get(next, own)).status).toBe(200);
    expect(parseHttpError(await site.http.get(next, their))).toMatchObject({
      code: 'validation_failed',
      fields: ['pageToken'],
    });
  });
});
