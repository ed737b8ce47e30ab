import { status } from '@grpc/grpc-js';
import type {
  CreateNormalizedKeyRequest,
  CreateSensorTemplateRequest,
  GetNormalizedKeyRequest,
  GetSensorTemplateRequest,
  ListNormalizedKeysRequest,
  ListNormalizedKeysResponse,
  ListSensorTemplatesRequest,
  ListSensorTemplatesResponse,
  ListUnitMeasurementsRequest,
  ListUnitMeasurementsResponse,
  NormalizedKey,
  SensorTemplate,
  UpdateNormalizedKeyRequest,
  UpdateSensorTemplateRequest,
} from '../../src/gen/sensor_template/v2/sensor_template_service';
import { call, callFails, type GrpcErrorInfo } from '../support/edge';
import { engines } from '../support/engines';
import { startTemplateFixture, type TemplateFixture } from './templateFixture';

const ORG = 'org-1';
const as = (organization = ORG): Record<string, string> => ({
  'x-api-key': organization,
  'x-organization-id': organization,
});

describe.each(engines())('sensor templates over gRPC on $name', (engine) => {
  let fixture: TemplateFixture;
  beforeEach(async () => {
    fixture = await startTemplateFixture(engine, [ORG, 'org-2']);
  });
  afterEach(async () => await fixture.stop());

  const listUnits = async (request: Partial<ListUnitMeasurementsRequest>): Promise<ListUnitMeasurementsResponse> =>
    await call(
      fixture.client.listUnitMeasurements.bind(fixture.client),
      { organizationId: '', pageToken: '', ...request },
      as(),
    );
  const listTemplates = async (
    request: Partial<ListSensorTemplatesRequest> = {},
    organization = ORG,
  ): Promise<ListSensorTemplatesResponse> =>
    await call<ListSensorTemplatesRequest, ListSensorTemplatesResponse>(
      fixture.client.listSensorTemplates.bind(fixture.client),
      { organizationId: '', pageToken: '', ...request },
      as(organization),
    );
  const listKeys = async (
    request: Partial<ListNormalizedKeysRequest> = {},
    organization = ORG,
  ): Promise<NormalizedKey[]> => {
    const answer = await call<ListNormalizedKeysRequest, ListNormalizedKeysResponse>(
      fixture.client.listNormalizedKeys.bind(fixture.client),
      { organizationId: '', pageToken: '', ...request },
      as(organization),
    );
    return answer.normalizedKeys;
  };
  const createKey = async (name: string, organization = ORG): Promise<NormalizedKey> =>
    await call<CreateNormalizedKeyRequest, NormalizedKey>(
      fixture.client.createNormalizedKey.bind(fixture.client),
      { organizationId: '', name },
      as(organization),
    );
  const createKeyFails = async (name: string): Promise<GrpcErrorInfo> =>
    await callFails(fixture.client.createNormalizedKey.bind(fixture.client), { organizationId: '', name }, as());
  const rename = async (id: string, name: string, etag?: string): Promise<NormalizedKey> =>
    await call<UpdateNormalizedKeyRequest, NormalizedKey>(
      fixture.client.updateNormalizedKey.bind(fixture.client),
      { id, name, organizationId: '', etag },
      as(),
    );
  const renameFails = async (id: string, name: string, etag?: string): Promise<GrpcErrorInfo> =>
    await callFails(
      fixture.client.updateNormalizedKey.bind(fixture.client),
      { id, name, organizationId: '', etag },
      as(),
    );
  const getKey = async (id: string): Promise<NormalizedKey> =>
    await call<GetNormalizedKeyRequest, NormalizedKey>(
      fixture.client.getNormalizedKey.bind(fixture.client),
      { id, organizationId: '' },
      as(),
    );
  const systemKey = async (name: string): Promise<NormalizedKey> =>
    (await listKeys()).find((key) => key.isSystem && key.name === name) as NormalizedKey;
  const wanted = async (
    overrides: Partial<CreateSensorTemplateRequest> = {},
  ): Promise<CreateSensorTemplateRequest> => ({
    organizationId: '',
    keyNameId: (await systemKey('temperature')).id,
    sensorType: 'probe',
    valueType: 'number',
    ...overrides,
  });
  const create = async (
    overrides: Partial<CreateSensorTemplateRequest> = {},
    organization = ORG,
  ): Promise<SensorTemplate> =>
    await call<CreateSensorTemplateRequest, SensorTemplate>(
      fixture.client.createSensorTemplate.bind(fixture.client),
      await wanted(overrides),
      as(organization),
    );
  const update = async (
    template: SensorTemplate,
    overrides: Partial<UpdateSensorTemplateRequest>,
  ): Promise<SensorTemplate> =>
    await call<UpdateSensorTemplateRequest, SensorTemplate>(
      fixture.client.updateSensorTemplate.bind(fixture.client),
      { id: template.id, keyNameId: template.keyNameId, organizationId: '', ...overrides },
      as(),
    );
  const updateFails = async (
    template: SensorTemplate,
    overrides: Partial<UpdateSensorTemplateRequest>,
  ): Promise<GrpcErrorInfo> =>
    await callFails(
      fixture.client.updateSensorTemplate.bind(fixture.client),
      { id: template.id, keyNameId: template.keyNameId, organizationId: '', ...overrides },
      as(),
    );
  const get = async (id: string): Promise<SensorTemplate> =>
    await call<GetSensorTemplateRequest, SensorTemplate>(
      fixture.client.getSensorTemplate.bind(fixture.client),
      { id, organizationId: '' },
      as(),
    );
  const deleteTemplate = async (id: string, etag?: string): Promise<object> =>
    (await call(
      fixture.client.deleteSensorTemplate.bind(fixture.client),
      { id, organizationId: '', etag },
      as(),
    )) as object;
  const removeFails = async (id: string, etag?: string): Promise<GrpcErrorInfo> =>
    await callFails(fixture.client.deleteSensorTemplate.bind(fixture.client), { id, organizationId: '', etag }, as());

  it('returns the same shipped templates and keys to every organization', async () => {
    const ofFirstOrganization = (await listTemplates()).sensorTemplates;
    expect(ofFirstOrganization).toEqual((await listTemplates({}, 'org-2')).sensorTemplates);
    expect(ofFirstOrganization).toContainEqual(
      expect.objectContaining({
        keyName: 'temperature',
        unitMeasurementId: 'Cel',
        valueType: 'number',
        isSystem: true,
        organizationId: '',
      }),
    );
    expect(ofFirstOrganization.every(({ isSystem }) => isSystem)).toBe(true);
    const keys = await listKeys();
    expect(new Set(ofFirstOrganization.map(({ keyNameId }) => keyNameId))).toEqual(new Set(keys.map(({ id }) => id)));
  });

  it('creates, changes and deletes a template', async () => {
    const created = await create({ unitMeasurementId: 'Cel', description: 'In the duct' });
    expect(created).toMatchObject({
      organizationId: ORG,
      isSystem: false,
      keyName: 'temperature',
      sensorType: 'probe',
      valueType: 'number',
      unitMeasurementId: 'Cel',
      description: 'In the duct',
    });
    expect(await get(created.id)).toEqual(created);
    expect((await listTemplates()).sensorTemplates[0]).toEqual({ ...created, etag: '' });
    fixture.clock.advance(1000);
    const key = await createKey('duct_temperature');
    const updated = await update(created, {
      keyNameId: key.id,
      sensorType: 'thermometer',
      valueType: 'integer',
      unitMeasurementId: '',
      description: '',
    });
    const { seconds = 0, nanos = 0 } = created.createdAt ?? {};
    expect(updated).toEqual({
      ...created,
      keyNameId: key.id,
      keyName: 'duct_temperature',
      sensorType: 'thermometer',
      valueType: 'integer',
      unitMeasurementId: '',
      description: '',
      updatedAt: { seconds: seconds + 1, nanos },
      etag: '"2"',
    });
    expect(await update(updated, {})).toEqual({ ...updated, etag: '"3"' });
    expect(await deleteTemplate(created.id)).toEqual({});
    expect(await removeFails(created.id)).toMatchObject({
      code: status.NOT_FOUND,
      reason: 'sensor_template_not_found',
    });
  });

  it('reports an unknown key and an unknown unit together and stores nothing', async () => {
    const refused = await fixture.templates
      .create(ORG, {
        keyNameId: 'no-such',
        sensorType: 'probe',
        valueType: 'number',
        unitMeasurementId: 'parsec',
        description: undefined,
      })
      .catch((error: { violations: { field: string }[] }) => error.violations.map(({ field }) => field).toSorted());
    expect(refused).toEqual(['keyNameId', 'unitMeasurementId']);
    const all = await callFails(
      fixture.client.createSensorTemplate.bind(fixture.client),
      await wanted({ keyNameId: 'no-such', sensorType: '', valueType: 'float', unitMeasurementId: 'parsec' }),
      as(),
    );
    expect(all.fields.toSorted()).toEqual(['keyNameId', 'sensorType', 'unitMeasurementId', 'valueType']);
    const template = await create();
    expect(
      (await updateFails(template, { keyNameId: 'no-such', unitMeasurementId: 'parsec' })).fields.toSorted(),
    ).toEqual(['keyNameId', 'unitMeasurementId']);
    expect(await updateFails(template, { keyNameId: 'no\0such', sensorType: '' })).toMatchObject({
      reason: 'validation_failed',
      violations: { keyNameId: expect.stringContaining('NUL') },
    });
    expect((await updateFails(template, { keyNameId: 'no-such' })).fields).toEqual(['keyNameId']);
    expect((await updateFails(template, { unitMeasurementId: 'cel' })).fields).toEqual(['unitMeasurementId']);
    expect((await listTemplates()).sensorTemplates.filter(({ isSystem }) => !isSystem)).toEqual([
      { ...template, etag: '' },
    ]);
  });

  it('accepts no key and finds no template of another organization', async () => {
    const foreignKey = await createKey('theirs', 'org-2');
    const template = await create({ keyNameId: foreignKey.id }, 'org-2');
    expect(
      (
        await callFails(
          fixture.client.createSensorTemplate.bind(fixture.client),
          await wanted({ keyNameId: foreignKey.id }),
          as(),
        )
      ).fields,
    ).toEqual(['keyNameId']);
    expect((await updateFails(template, { sensorType: 'x' })).reason).toBe('sensor_template_not_found');
    expect((await removeFails(template.id)).reason).toBe('sensor_template_not_found');
    expect((await renameFails(foreignKey.id, 'mine')).reason).toBe('normalized_key_not_found');
    for (const id of [template.id, 'no-such'])
      expect(
        await callFails(fixture.client.getSensorTemplate.bind(fixture.client), { id, organizationId: '' }, as()),
      ).toMatchObject({ code: status.NOT_FOUND, reason: 'sensor_template_not_found' });
    for (const id of [foreignKey.id, 'no-such'])
      expect(
        await callFails(fixture.client.getNormalizedKey.bind(fixture.client), { id, organizationId: '' }, as()),
      ).toMatchObject({ code: status.NOT_FOUND, reason: 'normalized_key_not_found' });
    expect(await fixture.uow.repos.templates.findTemplates(ORG, [template.id])).toEqual([]);
    expect((await listKeys()).some(({ id }) => id === foreignKey.id)).toBe(false);
    expect((await createKey('theirs')).organizationId).toBe(ORG);
  });

  it('rejects changes to the records that come with the server', async () => {
    const template = (await listTemplates()).sensorTemplates[0] as SensorTemplate;
    const key = await systemKey('humidity');
    expect(await get(template.id)).toEqual({ ...template, etag: '' });
    expect(await getKey(key.id)).toEqual({ ...key, etag: '' });
    const refusals = [
      await updateFails(template, { description: 'mine' }),
      await removeFails(template.id),
      await renameFails(key.id, 'mine'),
      await updateFails(template, { description: 'mine', etag: '"1"' }),
      await removeFails(template.id, '"9"'),
      await renameFails(key.id, 'mine', '"9"'),
    ];
    for (const refusal of refusals)
      expect(refusal).toMatchObject({ code: status.FAILED_PRECONDITION, reason: 'read_only_record' });
    expect(await fixture.uow.repos.templates.findTemplates(ORG, [template.id, 'no-such'])).toMatchObject([
      { id: template.id },
    ]);
  });

  it('accepts each key name once, ignoring case, and none of the system', async () => {
    const key = await createKey('  Füllstand ');
    expect(key).toMatchObject({ name: 'Füllstand', isSystem: false, organizationId: ORG });
    for (const name of ['füllstand', 'FÜLLSTAND', 'Temperature'])
      expect(await createKeyFails(name)).toMatchObject({ code: status.ALREADY_EXISTS, reason: 'name_taken' });
    const other = await createKey('other');
    for (const name of ['FÜLLSTAND', 'CO2']) expect((await renameFails(other.id, name)).reason).toBe('name_taken');
    fixture.clock.advance(1);
    expect(await rename(key.id, 'FÜLLSTAND')).toMatchObject({
      id: key.id,
      name: 'FÜLLSTAND',
      createdAt: key.createdAt,
    });
    const template = await create({ keyNameId: key.id });
    await rename(key.id, 'Pegel');
    expect((await fixture.uow.repos.templates.findTemplates(ORG, [template.id]))[0]?.keyName).toBe('Pegel');
  });

  it('creates one of two keys that request the same name at once', async () => {
    const outcomes = await Promise.allSettled([createKey('Same'), createKey('same')]);
    expect(outcomes.map((one) => one.status).toSorted()).toEqual(['fulfilled', 'rejected']);
  });

  it('rejects a change with an outdated etag, and accepts one with the current etag', async () => {
    const [template, key] = [await create(), await createKey('my level')];
    expect([template.etag, key.etag]).toEqual(['"1"', '"1"']);
    await update(template, { sensorType: 'faster', etag: template.etag });
    expect(await rename(key.id, 'fill', key.etag)).toMatchObject({ name: 'fill', etag: '"2"' });
    const refusals = [
      await updateFails(template, { sensorType: 'slower', etag: template.etag }),
      await updateFails(template, { keyNameId: 'no-such', etag: template.etag }),
      await removeFails(template.id, template.etag),
      await renameFails(key.id, 'slower', key.etag),
      await renameFails(key.id, 'slower', 'W/"2"'),
    ];
    for (const refusal of refusals)
      expect(refusal).toMatchObject({ code: status.ABORTED, reason: 'version_conflict', metadata: { etag: '"2"' } });
    expect(await get(template.id)).toMatchObject({ sensorType: 'faster', etag: '"2"' });
    expect(await getKey(key.id)).toMatchObject({ name: 'fill', etag: '"2"' });
    expect((await listKeys())[0]).toMatchObject({ id: key.id, etag: '' });
    expect(await deleteTemplate(template.id, '"2"')).toEqual({});
    expect((await removeFails(template.id, '"2"')).reason).toBe('sensor_template_not_found');
  });

  it('accepts one of several changes with the same etag', async () => {
    const [template, key] = [await create(), await createKey('race')];
    const four = ['a', 'b', 'c', 'd'];
    const updates = await Promise.allSettled(
      four.map(async (sensorType) => await update(template, { sensorType, etag: template.etag })),
    );
    expect(listCodes(updates)).toEqual([status.ABORTED, status.ABORTED, status.ABORTED]);
    const renames = await Promise.allSettled(four.map(async (name) => await rename(key.id, name, key.etag)));
    expect(listCodes(renames)).toEqual([status.ABORTED, status.ABORTED, status.ABORTED]);
    const [removed, changed] = await Promise.allSettled([
      deleteTemplate(template.id, '"2"'),
      update(template, { sensorType: 'e', etag: '"2"' }),
    ]);
    const loser = removed.status === 'fulfilled' ? [changed, status.NOT_FOUND] : [removed, status.ABORTED];
    expect(loser[0]).toMatchObject({ status: 'rejected', reason: { code: loser[1] } });
    expect([removed.status, changed.status].toSorted()).toEqual(['fulfilled', 'rejected']);
  });

  it('keeps a template that sensors use, and reports their number', async () => {
    const template = await create();
    await fixture.addSensors(ORG, template.id, 3);
    const refused = await removeFails(template.id);
    expect(refused).toMatchObject({
      code: status.FAILED_PRECONDITION,
      reason: 'template_in_use',
      metadata: { uses: '3' },
    });
    expect(refused.message).toContain('3 sensors');
    expect(await update(template, { description: 'still here' })).toMatchObject({ description: 'still here' });
  });

  it('keeps the type of values while a command expects one', async () => {
    const template = await create();
    fixture.expected.set(template.id, 2);
    expect(await updateFails(template, { valueType: 'string', description: 'x' })).toMatchObject({
      reason: 'template_in_use',
      metadata: { uses: '2' },
    });
    expect(await update(template, { valueType: 'number', sensorType: 'other' })).toMatchObject({
      sensorType: 'other',
      description: '',
    });
    fixture.expected.clear();
    expect(await update(template, { valueType: 'string' })).toMatchObject({ valueType: 'string' });
  });

  it('lists own templates newest first and then those of the system, at once or in pages', async () => {
    for (let n = 0; n < 5; n += 1) {
      await create({ sensorType: `probe ${n}` });
      if (n % 2) fixture.clock.advance(1);
    }
    const all = (await listTemplates()).sensorTemplates;
    expect(all.slice(0, 6).map(({ isSystem }) => isSystem)).toEqual([false, false, false, false, false, true]);
    expect(all.slice(0, 5).map(({ sensorType }) => sensorType)).toEqual([
      'probe 4',
      'probe 3',
      'probe 2',
      'probe 1',
      'probe 0',
    ]);
    for (const pageSize of [1, 3, 5, 50]) {
      const collected: SensorTemplate[] = [];
      let pageToken = '';
      do {
        const page = await listTemplates({ pageSize, pageToken });
        expect(page.sensorTemplates.length).toBeLessThanOrEqual(pageSize);
        collected.push(...page.sensorTemplates);
        pageToken = page.nextPageToken;
      } while (pageToken !== '');
      expect(collected).toEqual(all);
    }
    const own = await listTemplates({ pageSize: 2 });
    const foreign = await callFails(
      fixture.client.listSensorTemplates.bind(fixture.client),
      { organizationId: '', pageToken: own.nextPageToken },
      as('org-2'),
    );
    expect(foreign).toMatchObject({ reason: 'validation_failed', fields: ['pageToken'] });
    expect(await listKeys({ pageSize: 1 })).toHaveLength(1);
  });

  it('lists the units by name, at once or in pages', async () => {
    const { unitMeasurements: all } = await listUnits({});
    expect(all).toContainEqual({ id: 'Cel', name: 'degree Celsius', symbol: '°C' });
    const names = all.map(({ name }) => name);
    expect(names).toEqual(names.toSorted((a, b) => a.localeCompare(b, 'en')));
    const collected: unknown[] = [];
    let page = await listUnits({ pageSize: 7 });
    for (collected.push(...page.unitMeasurements); page.nextPageToken !== ''; collected.push(...page.unitMeasurements))
      page = await listUnits({ pageSize: 7, pageToken: page.nextPageToken });
    expect(collected).toEqual(all);
  });
});

function listCodes(ends: readonly PromiseSettledResult<unknown>[]): number[] {
  return ends.flatMap((end) => (end.status === 'rejected' ? [(end.reason as { code: number }).code] : []));
}
