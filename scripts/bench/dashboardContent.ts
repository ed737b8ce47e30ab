import {
  CreateDashboardRequest,
  Dashboard,
  type DashboardContent,
  SetDashboardContentRequest,
} from '../../src/gen/dashboard/v2/dashboard_service';
import { printEventLoopDelay } from './eventLoopDelay';
import { callMethod } from './fleet';
import { isShort } from './measure';
import type { PlantroomServer } from './plantroomServer';

const DASHBOARDS = '/dashboard.v2.DashboardService';
const SAVES = isShort ? 5 : 50;
/** The limits of a dashboard and a widget, which the content almost reaches. */
const [MAX_WIDGETS, MAX_SERIES, MAX_LABEL, MAX_TEXT] = [60, 20, 255, 10_000];

/** Measures how long saving and reading a dashboard of almost the maximum size hold the event loop. */
export async function measureDashboardContent(server: PlantroomServer, sensorIds: readonly string[]): Promise<void> {
  const content = createContent(sensorIds);
  const call = (method: string, message: Uint8Array): Promise<Buffer> =>
    callMethod(server, server.key, `${DASHBOARDS}/${method}`, message);
  const request = CreateDashboardRequest.fromPartial({ name: 'Large', content });
  let dashboard = Dashboard.decode(await call('CreateDashboard', CreateDashboardRequest.encode(request).finish()));
  const save = async (): Promise<void> => {
    const { id, etag } = dashboard;
    const change = SetDashboardContentRequest.encode(SetDashboardContentRequest.fromPartial({ id, etag, content }));
    dashboard = Dashboard.decode(await call('SetDashboardContent', change.finish()));
  };
  const size = SetDashboardContentRequest.encode(SetDashboardContentRequest.fromPartial({ content })).finish().length;
  await save();
  await printEventLoopDelay(server, `SetDashboardContent of ${(size / 1024).toFixed(0)} KiB`, async () => {
    for (let n = 0; n < SAVES; n += 1) await save();
  });
}

/** Half of the widgets are texts, the others tables; all labels and texts are long. */
function createContent(sensorIds: readonly string[]): DashboardContent {
  const series = Array.from({ length: MAX_SERIES }, (_, index) => ({
    sensorId: sensorIds[index % sensorIds.length] ?? '',
    label: 'Boiler '.repeat(MAX_LABEL).slice(0, MAX_LABEL),
  }));
  const text = { text: 'Call the plant. '.repeat(MAX_TEXT).slice(0, MAX_TEXT) };
  const widgets = Array.from({ length: MAX_WIDGETS }, (_, index) =>
    index % 2 === 0 ? { kind: 'text', options: text } : { kind: 'table', options: {}, series },
  );
  return CreateDashboardRequest.fromPartial({ content: { widgets } }).content as DashboardContent;
}
