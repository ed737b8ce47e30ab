import {
  CreateDashboardRequest,
  Dashboard,
  type DashboardContent,
  SetDashboardContentRequest,
} from '../../src/gen/dashboard/v2/dashboard_service';
import { printEventLoopDelay } from './eventLoopDelay';
import { callMethod } from './fleet';
import type { PlantroomServer } from './plantroomServer';

const DASHBOARDS = '/dashboard.v2.DashboardService';
/** Together almost the maximum size of 512 KiB. */
const [WIDGETS, SERIES, LABEL_LENGTH, TEXT_LENGTH] = [60, 20, 255, 9500];

/** Measures how long saving a dashboard of almost the maximum size holds the event loop. */
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
  await printEventLoopDelay(server, `SetDashboardContent of ${(size / 1024).toFixed(0)} KiB`, save);
}

/** Half of the widgets are texts, the others tables; all labels and texts are long. */
function createContent(sensorIds: readonly string[]): DashboardContent {
  const series = Array.from({ length: SERIES }, (_, index) => ({
    sensorId: sensorIds[index % sensorIds.length] ?? '',
    label: 'Boiler '.repeat(LABEL_LENGTH).slice(0, LABEL_LENGTH),
  }));
  const text = { text: 'Call the plant. '.repeat(TEXT_LENGTH).slice(0, TEXT_LENGTH) };
  const widgets = Array.from({ length: WIDGETS }, (_, index) =>
    index % 2 === 0 ? { kind: 'text', options: text } : { kind: 'table', options: {}, series },
  );
  return CreateDashboardRequest.fromPartial({ content: { widgets } }).content as DashboardContent;
}
