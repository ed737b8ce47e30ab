import { print, showRecord, showTable } from '../output';
import { toPlainText } from '../plainText';
import { findDashboard, withClient } from './dashboardClient';
import type { DeviceJson, DocumentJson } from './document';
import { printFormatted, toPlainRow, type DashboardFlags } from './format';

/** Runs `plantroom dashboards show`. The table has the names of devices, which only a document contains. */
export async function runShow(nameOrId: string, flags: DashboardFlags): Promise<void> {
  await withClient(flags, async (client) => {
    const { id } = await findDashboard(client, nameOrId);
    const dashboard = await client.call('DashboardService/GetDashboard', { id });
    const document = (await client.call('DashboardService/ExportDashboard', { id })) as unknown as DocumentJson;
    printFormatted(dashboard, flags, () => {
      const { visibility, revision, updatedAt } = dashboard;
      showRecord({ ...toPlainRow({ name: document.name }), id, visibility, revision, changed: updatedAt }, {});
      if (document.description !== '') print(`\n${formatLines(document.description)}`);
      print('');
      showTable(listWidgetRows(document), ['place', 'kind', 'title', 'series'], {});
    });
  });
}

/** Returns a table row per widget. `place`: column, row and size on the grid. */
function listWidgetRows({ content, devices }: DocumentJson) {
  const nameByRef = new Map(devices.map(({ ref, name }) => [ref, name]));
  const formatDevice = ({ deviceId = '', deviceVariable = '', missingDevice = '' }: DeviceJson): string => {
    if (missingDevice !== '') return `${missingDevice} (missing)`;
    return deviceVariable === '' ? (nameByRef.get(deviceId) ?? deviceId) : `$${deviceVariable}`;
  };
  return content.widgets.map(({ kind, title, series, options }, index) => {
    const place = content.layout[index];
    const device = formatDevice(options ?? {});
    const sources = series.map((one) => `${formatDevice(one)} ${one.keyName}`);
    return {
      place: place ? `${place.column},${place.row} ${place.width}x${place.height}` : '',
      ...toPlainRow({ kind, title }),
      series: [...(device === '' ? [] : [device]), ...sources].map((source) => toPlainText(source, 80)),
    };
  });
}

/** Escapes a text of several lines, line by line. */
function formatLines(text: string): string {
  return text
    .split(/\r?\n/)
    .map((line) => toPlainText(line, Infinity))
    .join('\n');
}
