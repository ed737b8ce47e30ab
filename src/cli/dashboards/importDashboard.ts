import { DomainError, type Violation } from '../../kernel/errors';
import { findNearest } from '../../kernel/findNearest';
import { createYamlLineFinder } from '../../kernel/findYamlLine';
import { normalizeId, UUID } from '../../kernel/ids';
import { normalizeForSearch } from '../../kernel/normalizeForSearch';
import type { Json, JsonClient } from '../call/jsonClient';
import { isServiceError, toWireError } from '../call/wireError';
import { AlreadyReportedError, UsageError } from '../exit';
import { note, print, showTable } from '../output';
import { toPlainText } from '../plainText';
import { listPages, MAX_PAGE_SIZE, quote, withClient } from './dashboardClient';
import { readDocumentFile, type DocumentFile } from './documentFile';
import { printFormatted, toPlainRow, type DashboardFlags } from './format';

/** The device for a ref of the document, by id or name. */
export interface DeviceBinding {
  readonly ref: string;
  readonly device: string;
}

/** Flags of `plantroom dashboards import`. */
export interface ImportFlags extends DashboardFlags {
  readonly dryRun?: boolean;
  readonly device?: readonly DeviceBinding[];
  readonly name?: string;
}

/** A response of ImportDashboard. */
interface ImportResponse {
  readonly dashboard?: { readonly id: string; readonly name: string };
  readonly devices: Readonly<Record<string, string>>;
  readonly missing: readonly {
    readonly ref: string;
    readonly name: string;
    readonly keyNames: readonly string[];
    readonly commandName: string;
    readonly reason: string;
  }[];
}

/** A device of a list. */
interface ListedDevice {
  readonly id: string;
  readonly name: string;
}

const LIST_DEVICES = 'DigitalDeviceService/ListDigitalDevices';

/** Runs `plantroom dashboards import`. The exit code of a dry run is 1 if something is missing. */
export async function runImport(path: string, flags: ImportFlags): Promise<void> {
  const file = await readDocumentFile(path);
  await withClient(flags, async (client) => {
    const devices: Record<string, string> = {};
    for (const { ref, device } of flags.device ?? []) devices[ref] = await findDeviceId(client, device);
    const request = { document: file.document, name: flags.name ?? '', devices, dryRun: flags.dryRun === true };
    const response = await callImport(client, request, file);
    printFormatted(response, flags, () => showDevices(file.document, response));
    noteNextStep(response);
    if (flags.dryRun && response.missing.length > 0) throw new AlreadyReportedError(1);
  });
}

/** Calls ImportDashboard. Invalid fields are reported with their line in the file. */
async function callImport(client: JsonClient, request: Json, file: DocumentFile): Promise<ImportResponse> {
  try {
    return (await client.call('DashboardService/ImportDashboard', request)) as unknown as ImportResponse;
  } catch (error) {
    const violations = getViolations(error);
    if (violations.length === 0) throw error;
    const findLine = createYamlLineFinder(file.text);
    throw new UsageError(
      `${file.name} cannot be imported:\n${violations.map((violation) => `  ${formatViolation(violation, findLine)}`).join('\n')}`,
      { cause: error },
    );
  }
}

/** Returns the invalid fields that the server or the conversion of the request reported. */
function getViolations(error: unknown): readonly Violation[] {
  if (isServiceError(error)) return toWireError(error).violations;
  return error instanceof DomainError ? error.violations : [];
}

function formatViolation({ field, description }: Violation, findLine: (field: string) => number): string {
  const [, inDocument] = /^document\.(.+)$/s.exec(field) ?? [];
  const message = toPlainText(description);
  return inDocument === undefined
    ? `${toPlainText(field)}: ${message}`
    : `line ${findLine(inDocument)}, ${toPlainText(inDocument)}: ${message}`;
}

/** Returns the id of a device by id or name. Throws UsageError if no device or several have the name. */
async function findDeviceId(client: JsonClient, device: string): Promise<string> {
  const id = normalizeId(device);
  if (UUID.test(id)) return id;
  const wanted = normalizeForSearch(device);
  const named = (await findDevices(client, device)).filter(({ name }) => normalizeForSearch(name) === wanted);
  const [only] = named;
  if (only && named.length === 1) return only.id;
  if (only)
    throw new UsageError(
      `--device: ${named.length} devices are named ${quote(device)}; use the id of one of them:\n${named.map(({ id }) => `  ${id}`).join('\n')}`,
    );
  const { devices } = await client.call(LIST_DEVICES, { limit: MAX_PAGE_SIZE }); // enough for a suggestion
  const similar = findNearest(
    device,
    (devices as readonly ListedDevice[]).map(({ name }) => name),
  );
  throw new UsageError(
    `--device: device ${quote(device)} not found${similar === undefined ? ': use the name or the id of a device' : `; did you mean ${quote(similar)}?`}`,
  );
}

/** Returns the devices whose name contains a text. */
async function findDevices(client: JsonClient, search: string): Promise<readonly ListedDevice[]> {
  const request = { search, limit: MAX_PAGE_SIZE };
  return (await listPages(client, LIST_DEVICES, 'devices', request)) as ListedDevice[];
}

/**
 * Prints a row per device of the document: the id of the device that was found, and what is missing. Then a row for
 * each device and connection without a ref that is missing.
 */
function showDevices(document: Json, { devices, missing }: ImportResponse): void {
  const documentDevices = (document['devices'] ?? []) as readonly { readonly ref: string; readonly name?: string }[];
  const rows = [
    ...documentDevices.map(({ ref, name = '' }) => ({
      ref,
      name,
      device: devices[ref] ?? '',
      missing: formatMissing(missing.filter((one) => one.ref === ref)),
    })),
    ...[...Map.groupBy(missing, ({ ref, name }) => (ref === '' ? name : undefined))].flatMap(([name, items]) =>
      name === undefined ? [] : [{ ref: '', name, device: '', missing: formatMissing(items) }],
    ),
  ];
  if (rows.length === 0) return print('The document uses no devices.');
  showTable(rows.map(toPlainRow), ['ref', 'name', 'device', 'missing'], {});
}

/** Formats what is missing of one device or connection. */
function formatMissing(items: ImportResponse['missing']): string {
  return items
    .map(({ reason, keyNames, commandName }) => {
      const names = commandName === '' ? keyNames : [commandName];
      return names.length > 0 ? `${reason}: ${names.join(', ')}` : reason;
    })
    .join('; ');
}

/** Says what was created and what to do next. */
function noteNextStep({ dashboard, missing }: ImportResponse): void {
  const bind = 'bind devices with --device REF=DEVICE';
  if (dashboard === undefined)
    return note(
      missing.length === 0
        ? 'plantroom: dry run, nothing was created; run the command without --dry-run to import the dashboard'
        : `plantroom: dry run, nothing was created; ${bind}, or import it as it is: widgets show what is missing`,
    );
  note(`plantroom: created the dashboard ${quote(dashboard.name)} (${dashboard.id})`);
  if (missing.length > 0)
    note(
      `plantroom: its widgets show what is missing; edit them, or delete the dashboard, ${bind} and import it again`,
    );
}
