import { DashboardVisibility, UpdateDashboardRequest } from '../../src/gen/dashboard/v2/dashboard_service';
import { engines } from '../support/engines';
import { DASHBOARDS, DashboardFixture, WIDGETS, type DashboardJson, type WidgetJson } from './dashboardFixture';

const TEXT = { kind: 'text', title: 'Note', options: { text: 'hello' } };

describe.each(engines())('dashboards on $name', (engine) => {
  let fixture: DashboardFixture;
  beforeAll(async () => {
    fixture = await DashboardFixture.start(engine);
  });
  afterAll(async () => await fixture.stop());

  test('creates, lists, changes and deletes a dashboard', async () => {
    const { owner } = fixture;
    const created = await owner.createDashboard({ name: 'Boiler house', description: 'All boilers' });
    expect(created).toMatchObject({
      name: 'Boiler house',
      description: 'All boilers',
      visibility: 'organization',
      ownerUserId: owner.userId,
      revision: 1,
      etag: '"1"',
      content: { widgets: [], layout: [], variables: [] },
    });
    const list = await owner.call<{ dashboards: DashboardJson[] }>(`${DASHBOARDS}/ListDashboards`, { search: 'BOIL' });
    expect(list.dashboards.map(({ id }) => id)).toEqual([created.id]);
    expect(list.dashboards[0]).not.toHaveProperty('content');
    expect(list.dashboards[0]).toMatchObject({ widgetCount: 0 });
    const { id } = created;
    const changed = await owner.call<DashboardJson>(`${DASHBOARDS}/UpdateDashboard`, {
      id,
      name: 'Boilers',
      etag: '"1"',
    });
    expect(changed).toMatchObject({ name: 'Boilers', description: 'All boilers', revision: 2 });
    expect(await owner.fail(`${DASHBOARDS}/CreateDashboard`, { name: 'boilers' })).toMatchObject({
      code: 'name_taken',
      status: 409,
    });
    const conflict = await owner.try(`${DASHBOARDS}/DeleteDashboard`, { id, etag: '"1"' });
    expect(conflict.status).toBe(412);
    expect(conflict.json['error']).toMatchObject({
      code: 'version_conflict',
      details: [{ reason: 'version_conflict', metadata: { etag: '"2"' } }],
    });
    await owner.call(`${DASHBOARDS}/DeleteDashboard`, { id, etag: '"2"' });
    expect(await owner.fail(`${DASHBOARDS}/GetDashboard`, { id })).toMatchObject({
      code: 'dashboard_not_found',
      status: 404,
    });
  });

  test('lists in pages by name, with characters of patterns and of other languages', async () => {
    const organization = await fixture.organization(`Pages ${engine.name}`);
    const names = ['Übersicht 100%', 'a_b', 'axb', 'Zeta', 'Ölkessel', '50% load'];
    for (const name of names) await organization.createDashboard({ name });
    const listed: string[] = [];
    let pageToken = '';
    do {
      const page = await organization.call<{ dashboards: DashboardJson[]; nextPageToken: string }>(
        `${DASHBOARDS}/ListDashboards`,
        { pageSize: 2, pageToken },
      );
      listed.push(...page.dashboards.map(({ name }) => name));
      ({ nextPageToken: pageToken } = page);
    } while (pageToken);
    expect(listed).toEqual(['50% load', 'a_b', 'axb', 'Zeta', 'Ölkessel', 'Übersicht 100%']);
    const search = async (text: string): Promise<string[]> => {
      const { dashboards } = await organization.call<{ dashboards: DashboardJson[] }>(`${DASHBOARDS}/ListDashboards`, {
        search: text,
      });
      return dashboards.map(({ name }) => name);
    };
    expect(await search('a_b')).toEqual(['a_b']);
    expect(await search('0%')).toEqual(['50% load', 'Übersicht 100%']);
    expect(await search('ÖLK')).toEqual(['Ölkessel']);
    expect(await search('\\')).toEqual([]);
  });

  test('sets the content as a whole, with ids and places of the server', async () => {
    const { owner } = fixture;
    const { id } = await owner.createDashboard();
    const content = {
      widgets: [
        { id: 'left', ...TEXT },
        { id: 'right', kind: 'clock', title: 'Time' },
        { kind: 'connections', title: 'No place' },
      ],
      layout: [
        { widgetId: 'right', column: 12, row: 0, width: 4, height: 2 },
        { widgetId: 'left', column: 0, row: 0, width: 12, height: 3 },
      ],
      lastSeconds: 3600,
    };
    const set = await owner.call<DashboardJson>(`${DASHBOARDS}/SetDashboardContent`, {
      id,
      content,
      etag: '"1"',
      message: 'First draft',
    });
    expect(set.revision).toBe(2);
    expect(set.content.lastSeconds).toBe(3600);
    const idByTitle = Object.fromEntries(set.content.widgets.map((widget) => [widget.title, widget.id]));
    expect(set.content.layout).toEqual([
      { widgetId: idByTitle['Time'], column: 12, row: 0, width: 4, height: 2 },
      { widgetId: idByTitle['Note'], column: 0, row: 0, width: 12, height: 3 },
      { widgetId: idByTitle['No place'], column: 0, row: 3, width: 8, height: 3 },
    ]);
    const widgets = await owner.call<{ widgets: WidgetJson[] }>(`${WIDGETS}/ListWidgets`, { dashboardId: id });
    expect(widgets.widgets.map(({ title }) => title)).toEqual(['Time', 'Note', 'No place']);

    const again = await owner.call<DashboardJson>(`${DASHBOARDS}/SetDashboardContent`, {
      id,
      etag: set.etag,
      content: {
        ...set.content,
        widgets: set.content.widgets.map((widget) => (widget.title === 'Note' ? { ...widget, title: 'New' } : widget)),
      },
    });
    const before = new Map(set.content.widgets.map((widget) => [widget.id, widget.etag]));
    const unchanged = again.content.widgets.filter((widget) => before.get(widget.id) === widget.etag);
    expect(unchanged.map(({ title }) => title).toSorted()).toEqual(['No place', 'Time']);
    expect(again.content.widgets.map((widget) => widget.id)).toEqual(set.content.widgets.map((widget) => widget.id));
    expect(await owner.getDashboard(id)).toEqual(again);
    expect(
      await owner.fail(`${DASHBOARDS}/SetDashboardContent`, { id, content: again.content, etag: set.etag }),
    ).toMatchObject({ code: 'version_conflict', status: 412 });
  });

  test('restores a revision with the ids of its widgets, and keeps 50', async () => {
    const { owner } = fixture;
    const { id } = await owner.createDashboard({ content: { widgets: [{ id: 'w', ...TEXT }] } });
    const first = await owner.getDashboard(id);
    await owner.call(`${DASHBOARDS}/SetDashboardContent`, { id, etag: '"1"', content: { widgets: [] } });
    const restored = await owner.call<DashboardJson>(`${DASHBOARDS}/RestoreDashboardRevision`, { id, revision: 1 });
    expect(restored.revision).toBe(3);
    expect(restored.content.widgets[0]).toMatchObject({ id: first.content.widgets[0]?.id, etag: '"3"' });
    expect(restored.content.layout).toEqual(first.content.layout);
    for (let revision = 3; revision < 53; revision += 1)
      await owner.call(`${DASHBOARDS}/SetDashboardContent`, {
        id,
        etag: `"${revision}"`,
        content: { lastSeconds: 60 + revision },
        message: `Save ${revision + 1}`,
      });
    const { revisions } = await owner.call<{ revisions: { revision: number; message: string; userId: string }[] }>(
      `${DASHBOARDS}/ListDashboardRevisions`,
      { id },
    );
    expect(revisions).toHaveLength(50);
    expect(revisions[0]).toMatchObject({ revision: 53, message: 'Save 53', userId: owner.userId });
    expect(revisions.at(-1)?.revision).toBe(4);
    expect(await owner.fail(`${DASHBOARDS}/RestoreDashboardRevision`, { id, revision: 3 })).toMatchObject({
      code: 'revision_not_found',
    });
  });

  test('changes single widgets without conflicts between two of them', async () => {
    const { owner } = fixture;
    const { id: dashboardId } = await owner.createDashboard();
    const create = async (title: string): Promise<WidgetJson> =>
      await owner.call<WidgetJson>(`${WIDGETS}/CreateWidget`, { dashboardId, ...TEXT, title });
    const [one, two] = [await create('One'), await create('Two')];
    const update = { dashboardId, widgetId: one.id, title: 'Changed', etag: one.etag };
    const changed = await owner.call<WidgetJson>(`${WIDGETS}/UpdateWidget`, update);
    expect(changed).toMatchObject({ title: 'Changed', options: { text: 'hello' } });
    await owner.call(`${WIDGETS}/UpdateWidget`, {
      dashboardId,
      widgetId: two.id,
      options: { text: 'new' },
      etag: two.etag,
    });
    expect(await owner.fail(`${WIDGETS}/UpdateWidget`, update)).toMatchObject({ code: 'version_conflict' });
    expect(await owner.fail(`${WIDGETS}/DeleteWidget`, update)).toMatchObject({ code: 'validation_failed' });
    const dashboard = await owner.getDashboard(dashboardId);
    expect(dashboard.revision).toBe(5);
    expect(dashboard.content.layout.map(({ row }) => row)).toEqual([0, 2]);
    await owner.call(`${WIDGETS}/DeleteWidget`, { dashboardId, widgetId: one.id, etag: changed.etag });
    expect(await owner.fail(`${WIDGETS}/GetWidget`, { dashboardId, widgetId: one.id })).toMatchObject({
      code: 'widget_not_found',
      status: 404,
    });
    expect((await owner.getDashboard(dashboardId)).content.layout).toHaveLength(1);
  });

  test('lets the owner, admins and members of editor roles change a dashboard', async () => {
    const { owner } = fixture;
    const roleId = await fixture.createRole(`Editors ${engine.name}`);
    const otherRoleId = await fixture.createRole(`Others ${engine.name}`);
    const [editor, other, admin] = [
      await fixture.member(roleId),
      await fixture.member(otherRoleId),
      await fixture.member('admin'),
    ];
    const { id } = await owner.createDashboard({ editorRoleIds: [roleId] });
    const rename = { id, description: 'changed' };
    await editor.call(`${DASHBOARDS}/UpdateDashboard`, rename);
    await admin.call(`${DASHBOARDS}/UpdateDashboard`, rename);
    expect(await other.getDashboard(id)).toMatchObject({ description: 'changed', updatedByUserId: admin.userId });
    for (const [path, request] of [
      ['UpdateDashboard', rename],
      ['DeleteDashboard', { id }],
      ['SetDashboardContent', { id, content: {}, etag: '"3"' }],
      ['RestoreDashboardRevision', { id, revision: 1 }],
    ] as const)
      expect(await other.fail(`${DASHBOARDS}/${path}`, request)).toMatchObject({
        code: 'dashboard_not_editable',
        status: 403,
      });
    expect(await other.fail(`${WIDGETS}/CreateWidget`, { dashboardId: id, ...TEXT })).toMatchObject({
      code: 'dashboard_not_editable',
    });
    expect(await editor.fail(`${DASHBOARDS}/UpdateDashboard`, { id, visibility: 'private' })).toMatchObject({
      code: 'dashboard_not_editable',
    });
    expect(await owner.fail(`${DASHBOARDS}/UpdateDashboard`, { id, editorRoleIds: ['nobody'] })).toMatchObject({
      code: 'role_not_found',
    });
    // A client may send back everything that it read, also a role that was deleted since.
    const unusedRoleId = await fixture.createRole(`Unused ${engine.name}`);
    const editorRoleIds = [unusedRoleId, roleId];
    await owner.call(`${DASHBOARDS}/UpdateDashboard`, { id, editorRoleIds });
    await owner.call('/organization_access_control.AccessControlService/DeleteRole', { id: unusedRoleId });
    const all = { id, visibility: 'organization', editorRoleIds: editorRoleIds.toReversed(), description: 'all' };
    await editor.call(`${DASHBOARDS}/UpdateDashboard`, all);
    await owner.call(`${DASHBOARDS}/UpdateDashboard`, { ...all, editorRoleIds: [...editorRoleIds, 'admin'] });
    expect(await editor.fail(`${DASHBOARDS}/UpdateDashboard`, { id, editorRoleIds: [roleId] })).toMatchObject({
      code: 'dashboard_not_editable',
      message: expect.stringContaining('who may view and edit') as string,
    });
  });

  test('hides a private dashboard from everybody else', async () => {
    const [ada, admin] = [await fixture.member('admin'), fixture.owner];
    const { id } = await ada.createDashboard({ visibility: 'private', name: `Private ${engine.name}` });
    for (const [path, request] of [
      [`${DASHBOARDS}/GetDashboard`, { id }],
      [`${DASHBOARDS}/DeleteDashboard`, { id }],
      [`${DASHBOARDS}/ExportDashboard`, { id }],
      [`${DASHBOARDS}/ListDashboardRevisions`, { id }],
      [`${DASHBOARDS}/SetDashboardContent`, { id, content: {}, etag: '"1"' }],
      [`${WIDGETS}/ListWidgets`, { dashboardId: id }],
      [`${WIDGETS}/CreateWidget`, { dashboardId: id, ...TEXT }],
    ] as const)
      expect(await admin.fail(path, request)).toMatchObject({ code: 'dashboard_not_found', status: 404 });
    const list = await admin.call<{ dashboards: DashboardJson[] }>(`${DASHBOARDS}/ListDashboards`, {
      search: 'private',
    });
    expect(list.dashboards).toEqual([]);
    // A client of generated code may send an enum that it did not set.
    const unspecified = UpdateDashboardRequest.encode(
      UpdateDashboardRequest.fromPartial({
        id,
        description: 'Mine',
        visibility: DashboardVisibility.DASHBOARD_VISIBILITY_UNSPECIFIED,
      }),
    ).finish();
    expect((await ada.sendBytes(`${DASHBOARDS}/UpdateDashboard`, unspecified)).code).toBe(0);
    expect(await ada.getDashboard(id)).toMatchObject({ visibility: 'private', description: 'Mine' });
  });

  test('finds the dashboards that show a sensor, and counts them when it is removed', async () => {
    const { owner } = fixture;
    const device = await owner.createDevice('Tank', ['temperature', 'level', 'humidity']);
    const [temperature, level, humidity] = device.sensorIds;
    const show = async (name: string, ...series: readonly object[]): Promise<string> =>
      (await owner.createDashboard({ name, content: { widgets: [{ kind: 'latest', series }] } })).id;
    const ids = [
      await show(`By sensor ${engine.name}`, { sensorId: temperature }, { sensorId: level }),
      await show(`By key ${engine.name}`, { deviceId: device.id, keyName: 'temperature' }),
    ];
    await show(`Other ${engine.name}`, { deviceId: device.id, keyName: 'level' });
    const variables = [{ name: 'tank', kind: 'device', value: device.id }];
    await owner.createDashboard({ content: { variables } });
    await owner.createDashboard({ content: { variables: [{ ...variables[0], value: '' }] } });
    const list = async (sensorId: string | undefined): Promise<string[]> => {
      const request = { sensorId };
      const { dashboards } = await owner.call<{ dashboards: DashboardJson[] }>(`${DASHBOARDS}/ListDashboards`, request);
      return dashboards.map(({ id }) => id);
    };
    expect((await list(temperature)).toSorted()).toEqual(ids.toSorted());
    expect(await list(humidity)).toEqual([]);
    const path = `/api/v2/devices/${device.id}/sensors`;
    const remove = async (sensorIds: unknown[]) => (await owner.send('DELETE', path, { sensorIds })).json;
    expect(await remove([humidity])).not.toHaveProperty('dashboardCount');
    expect(await remove([temperature])).toMatchObject({ dashboardCount: 2 });
    expect(await list(temperature)).toEqual([ids[0]]);
    const { content } = await owner.getDashboard(String(ids[0]));
    expect(content.widgets[0]?.series).toMatchObject([{ sensorId: temperature }, { sensorId: level }]);
    expect((await owner.send('DELETE', `/api/v2/devices/${device.id}`)).json).toEqual({ dashboardCount: 4 });
  });

  test('records changes in the audit trail with the dashboard and the widget', async () => {
    const { owner } = fixture;
    const { id } = await owner.createDashboard();
    const widget = await owner.call<WidgetJson>(`${WIDGETS}/CreateWidget`, { dashboardId: id, ...TEXT });
    await owner.call(`${WIDGETS}/DeleteWidget`, { dashboardId: id, widgetId: widget.id });
    await owner.call(`${DASHBOARDS}/SetDashboardContent`, { id, content: { lastSeconds: 60 }, etag: '"3"' });
    await owner.fail(`${DASHBOARDS}/SetDashboardContent`, { id, content: {}, etag: '"3"' });
    const document = (await owner.send('GET', `/api/v2/dashboards/${id}:export`)).json;
    const imported = { document, name: `Copy ${engine.name}` };
    await owner.call(`${DASHBOARDS}/ImportDashboard`, { ...imported, dryRun: true });
    const { dashboard } = await owner.call<{ dashboard: DashboardJson }>(`${DASHBOARDS}/ImportDashboard`, imported);
    const starters = await owner.call<{ created: DashboardJson[] }>(`${DASHBOARDS}/CreateStarterDashboards`, {});
    const path = '/organization_access_control.AccessControlService/ListAuditEvents';
    const { events } = await owner.call<{
      events: { method: string; resource: string; outcome: string; reason: string }[];
    }>(path, {});
    const described = events.map(({ method, resource, outcome }) => [method.split('/').at(-1), resource, outcome]);
    expect(described.toReversed().filter(([, resource]) => resource?.startsWith(`dashboards/${id}`))).toEqual([
      ['CreateDashboard', `dashboards/${id}`, 'succeeded'],
      ['CreateWidget', `dashboards/${id}/widgets/${widget.id}`, 'succeeded'],
      ['DeleteWidget', `dashboards/${id}/widgets/${widget.id}`, 'succeeded'],
      ['SetDashboardContent', `dashboards/${id}`, 'succeeded'],
      ['SetDashboardContent', `dashboards/${id}`, 'refused'],
    ]);
    const imports = events.filter(({ method }) => method.endsWith('ImportDashboard'));
    expect(imports.map(({ resource, outcome, reason }) => [resource, outcome, reason])).toEqual([
      [`dashboards/${dashboard.id}`, 'succeeded', ''],
      ['dashboards', 'refused', 'dry_run'],
    ]);
    expect(starters.created.length).toBeGreaterThan(0);
    for (const created of starters.created)
      expect(described).toContainEqual(['CreateStarterDashboards', `dashboards/${created.id}`, 'succeeded']);
  });

  test('stores no revision for a change that changes nothing', async () => {
    const { owner } = fixture;
    const variables = [{ name: 'shift', kind: 'choice', choices: ['day', 'night'] }];
    const content = { widgets: [TEXT, { kind: 'clock' }], variables, lastSeconds: 900 };
    const created = await owner.createDashboard({ content });
    const { id: dashboardId, etag } = created;
    const set = async (changed: object): Promise<DashboardJson> =>
      await owner.call<DashboardJson>(`${DASHBOARDS}/SetDashboardContent`, {
        id: dashboardId,
        etag: (await owner.getDashboard(dashboardId)).etag,
        content: { ...created.content, ...changed },
      });
    const [widget] = created.content.widgets;
    const same = { dashboardId, widgetId: widget?.id, etag: widget?.etag, options: { text: 'hello' } };
    expect(await owner.call(`${WIDGETS}/UpdateWidget`, { dashboardId, widgetId: widget?.id })).toEqual(widget);
    expect(await owner.call(`${WIDGETS}/UpdateWidget`, same)).toEqual(widget);
    expect(await set({})).toEqual(created);
    expect(await owner.getDashboard(dashboardId)).toEqual(created);
    expect(created).toMatchObject({ revision: 1, widgetCount: 2 });
    // Each part of the content is compared.
    for (const changed of [
      { lastSeconds: 60 },
      { variables: [{ ...variables[0], label: 'Shift' }] },
      { layout: created.content.layout.toReversed() },
      { widgets: created.content.widgets.slice(0, 1), layout: created.content.layout.slice(0, 1) },
    ])
      expect((await set(changed)).etag).not.toBe(etag);
    expect((await owner.getDashboard(dashboardId)).revision).toBe(5);
    const { revisions } = await owner.call<{ revisions: unknown[] }>(`${DASHBOARDS}/ListDashboardRevisions`, {
      id: dashboardId,
    });
    expect(revisions).toHaveLength(5);
    // Restoring says that a revision is current, even if its content is.
    const restored = await owner.call(`${DASHBOARDS}/RestoreDashboardRevision`, { id: dashboardId, revision: 5 });
    expect(restored).toMatchObject({ revision: 6, widgetCount: 1 });
  });
});
