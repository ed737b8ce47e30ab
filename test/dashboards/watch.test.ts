import { credentials, type ClientReadableStream } from '@grpc/grpc-js';
import { readFileSync } from 'node:fs';
import { DashboardServiceClient, type WatchDashboardsResponse } from '../../src/gen/dashboard/v2/dashboard_service';
import { headers } from '../support/edge';
import { engines } from '../support/engines';
import { as } from '../support/testApp';
import { waitUntil } from '../support/waitUntil';
import { DASHBOARDS, DashboardFixture, WIDGETS } from './dashboardFixture';

describe.each(engines())('watching dashboards on $name', (engine) => {
  let fixture: DashboardFixture;
  let client: DashboardServiceClient;
  const streams: ClientReadableStream<WatchDashboardsResponse>[] = [];

  beforeAll(async () => {
    fixture = await DashboardFixture.start(engine);
    const { addresses, ca } = fixture.server.app;
    const address = addresses.grpc.replace('127.0.0.1', 'localhost');
    client = new DashboardServiceClient(address, credentials.createSsl(readFileSync(ca as string)));
  });
  afterAll(async () => {
    streams.forEach((stream) => stream.cancel());
    client.close();
    await fixture.stop();
  });

  /** Opens a watch of the first organization; returns the messages and the reason of its end. */
  function watch(key: string, ids: string[] = []) {
    const stream = client.watchDashboards({ organizationId: '', ids }, headers(as(key, fixture.server.organizationId)));
    streams.push(stream);
    const messages: Partial<WatchDashboardsResponse>[] = [];
    const end = { message: '' };
    stream.on('data', (message: WatchDashboardsResponse) => messages.push(message));
    stream.on('error', (error) => (end.message = error.message));
    return { messages, end };
  }

  test('sends each dashboard, then complete, then every change', async () => {
    const { owner, server } = fixture;
    const other = await fixture.member('admin');
    const { id } = await owner.createDashboard();
    const { id: hidden } = await other.createDashboard({ visibility: 'private' });
    const { messages } = watch(server.key);
    await waitUntil(() => messages.some(({ complete }) => complete));
    expect(messages).toMatchObject([{ id, revision: 1, updatedByUserId: owner.userId }, { complete: true }]);
    messages.length = 0;

    await other.call(`${WIDGETS}/CreateWidget`, { dashboardId: id, kind: 'clock' });
    await waitUntil(() => messages.length === 1);
    expect(messages[0]).toMatchObject({ id, revision: 2, updatedByUserId: other.userId, deleted: false });
    await other.call(`${DASHBOARDS}/UpdateDashboard`, { id: hidden, visibility: 'organization' });
    await waitUntil(() => messages.length === 2);
    expect(messages[1]).toMatchObject({ id: hidden, revision: 2 });
    await other.call(`${DASHBOARDS}/UpdateDashboard`, { id: hidden, visibility: 'private' });
    await waitUntil(() => messages.length === 3);
    expect(messages[2]).toMatchObject({ id: hidden, deleted: true });
    await owner.call(`${DASHBOARDS}/DeleteDashboard`, { id });
    await waitUntil(() => messages.length === 4);
    expect(messages[3]).toMatchObject({ id, deleted: true });
  });

  test('sends only the dashboards of the request, and refuses one that the caller may not view', async () => {
    const { owner, server } = fixture;
    const [one, two] = [await owner.createDashboard(), await owner.createDashboard()];
    const { messages } = watch(server.key, [one.id]);
    await waitUntil(() => messages.length === 2);
    await owner.call(`${DASHBOARDS}/UpdateDashboard`, { id: two.id, description: 'changed' });
    await owner.call(`${DASHBOARDS}/UpdateDashboard`, { id: one.id, description: 'changed' });
    await waitUntil(() => messages.length === 3);
    expect(messages[2]).toMatchObject({ id: one.id, revision: 2 });
    const { end } = watch(server.key, ['0190a0a0-0000-7000-8000-000000000000']);
    await waitUntil(() => end.message !== '');
    expect(end.message).toContain('dashboard');
  });
});
