import { notFound, throwIfAny, type Violation } from '../kernel/errors';
import { isId } from '../kernel/ids';
import { getOptionDeviceIds } from './contentReferences';
import {
  dashboardNameTaken,
  type DashboardWithContent,
  type SeriesRef,
  type Viewer,
  type WidgetInput,
} from './dashboard';
import { convertDevices, type DashboardDocument, type DocumentDevice } from './dashboardDocument';
import type { DashboardRepositories } from './dashboardRepositories';
import { assertCreatable, createDashboard, type DashboardOptions, type NewDashboard } from './dashboardService';
import type { SiteDevice } from './siteRepository';

/** A document, and how to bind its devices. */
export interface DashboardImport {
  readonly document: DashboardDocument;
  /** Empty: the name in the document. */
  readonly name: string;
  /** Device ids by `ref`. */
  readonly devices: ReadonlyMap<string, string>;
  readonly dryRun: boolean;
}

/** A device or sensors that an import did not find. */
export interface MissingDevice {
  readonly ref: string;
  readonly name: string;
  /** Keys for which the device that was found has no sensor; empty: the device was not found. */
  readonly keyNames: readonly string[];
  readonly reason: 'not_found' | 'ambiguous' | 'sensor_not_found';
}

/** The result of an import. */
export interface ImportResult {
  /** Undefined in a dry run. */
  readonly dashboard: DashboardWithContent | undefined;
  /** The ids of the devices that were found, by `ref`. */
  readonly devices: ReadonlyMap<string, string>;
  readonly missing: readonly MissingDevice[];
}

const SOURCE = { root: 'document.content', message: 'Imported', allowsUnknownKinds: true };

/**
 * Creates a dashboard from a document. Devices are found by the given map, then by clientDeviceId, then by name, if
 * exactly one matches. Throws `validation_failed`, `device_not_found`, `name_taken`, and the limits of dashboards.
 */
export async function importDashboard(
  { work, feed, clock }: DashboardOptions,
  viewer: Viewer,
  { document, name, devices: wanted, dryRun }: DashboardImport,
): Promise<ImportResult> {
  throwIfAny([...checkDocument(document), ...checkWantedDevices(document, wanted)]);
  return await work.transaction(async (repos, db) => {
    const { devices, missing } = await bindDevices(repos, viewer.organizationId, document, wanted);
    const newDashboard = toNewDashboard(document, name, devices);
    if (!dryRun) {
      const dashboard = await createDashboard({ repos, db, feed }, viewer, newDashboard, clock.now(), SOURCE);
      return { dashboard, devices, missing };
    }
    await assertCreatable(repos, viewer, newDashboard, SOURCE);
    if (await repos.dashboards.hasName(viewer.organizationId, newDashboard.name))
      throw dashboardNameTaken(newDashboard.name);
    return { dashboard: undefined, devices, missing };
  });
}

/** Checks that the document contains no sensor ids, and only the refs of its devices. */
function checkDocument({ content, devices }: DashboardDocument): Violation[] {
  const refs = new Set(devices.map(({ ref }) => ref));
  const checkRef = (ref: string, field: string): Violation[] =>
    ref === '' || refs.has(ref)
      ? []
      : [
          {
            field,
            description: `${JSON.stringify(ref)} is not the ref of a device of the document: add it to devices`,
          },
        ];
  const violations = content.widgets.flatMap(({ series, options }, index) => {
    const path = `${SOURCE.root}.widgets[${index}]`;
    return [
      ...series.flatMap(({ sensorId, deviceId }, at) => [
        ...checkRef(deviceId, `${path}.series[${at}].deviceId`),
        ...(sensorId === ''
          ? []
          : [
              {
                field: `${path}.series[${at}].sensorId`,
                description: 'must be empty in a document: use the ref of a device and a key',
              },
            ]),
      ]),
      ...getOptionDeviceIds(options).flatMap((ref) => checkRef(ref, `${path}.options.deviceId`)),
    ];
  });
  if (refs.size < devices.length)
    violations.push({ field: 'document.devices', description: 'must have a different ref for each device' });
  return [
    ...violations,
    ...content.variables.flatMap(({ kind, value }, index) =>
      kind === 'device' ? checkRef(value, `${SOURCE.root}.variables[${index}].value`) : [],
    ),
  ];
}

function checkWantedDevices({ devices }: DashboardDocument, wanted: ReadonlyMap<string, string>): Violation[] {
  const refs = new Set(devices.map(({ ref }) => ref));
  return [...wanted.keys()]
    .filter((ref) => !refs.has(ref))
    .map((ref) => ({
      field: 'devices',
      description: `has the key ${JSON.stringify(ref)}, which is not the ref of a device of the document: use one of its devices`,
    }));
}

/** Finds the devices of a document. Throws `device_not_found` for a device of the map that does not exist. */
async function bindDevices(
  repos: DashboardRepositories,
  organizationId: string,
  { content, devices: documentDevices }: DashboardDocument,
  wanted: ReadonlyMap<string, string>,
): Promise<Pick<ImportResult, 'devices' | 'missing'>> {
  const devices = new Map<string, string>();
  const missing: MissingDevice[] = [];
  for (const device of documentDevices) {
    const wantedId = wanted.get(device.ref);
    const candidates =
      wantedId === undefined
        ? await findCandidates(repos, organizationId, device)
        : await findWanted(repos, organizationId, wantedId);
    const [only] = candidates;
    if (only && candidates.length === 1) devices.set(device.ref, only.id);
    else missing.push(reportMissing(device, [], only ? 'ambiguous' : 'not_found'));
  }
  const sensors = await repos.site.listSensorsOfDevices(organizationId, [...devices.values()]);
  const available = new Set(sensors.map(({ deviceId, keyName }) => JSON.stringify([deviceId, keyName])));
  for (const device of documentDevices) {
    const deviceId = devices.get(device.ref);
    if (deviceId === undefined) continue;
    const keyNames = listUsedKeys(content.widgets, device.ref).filter(
      (keyName) => !available.has(JSON.stringify([deviceId, keyName])),
    );
    if (keyNames.length > 0) missing.push(reportMissing(device, keyNames, 'sensor_not_found'));
  }
  return { devices, missing };
}

async function findWanted({ site }: DashboardRepositories, organizationId: string, id: string): Promise<SiteDevice[]> {
  const devices = isId(id) ? await site.findDevices(organizationId, [id]) : [];
  if (devices.length === 0) throw notFound('device', id);
  return devices;
}

/** Returns the devices with the clientDeviceId, or if exactly one is not found, those with the name. */
async function findCandidates(
  { site }: DashboardRepositories,
  organizationId: string,
  { name, clientDeviceId }: DocumentDevice,
): Promise<SiteDevice[]> {
  const byClientId = clientDeviceId === '' ? [] : await site.findByClientDeviceId(organizationId, clientDeviceId);
  if (byClientId.length === 1 || name === '') return byClientId;
  const byName = await site.findByName(organizationId, name);
  return byName.length > 0 ? byName : byClientId;
}

function reportMissing(
  { ref, name }: DocumentDevice,
  keyNames: readonly string[],
  reason: MissingDevice['reason'],
): MissingDevice {
  return { ref, name, keyNames, reason };
}

/** Returns the keys that series use of a device of the document. */
function listUsedKeys(widgets: readonly WidgetInput[], ref: string): string[] {
  const keyNames = widgets.flatMap(({ series }) =>
    series.filter(({ deviceId }) => deviceId === ref).map(({ keyName }) => keyName),
  );
  return [...new Set(keyNames)].toSorted();
}

/** Returns the dashboard to create, with the devices that were found. */
function toNewDashboard(
  { name, description, content, devices: documentDevices }: DashboardDocument,
  newName: string,
  devices: ReadonlyMap<string, string>,
): NewDashboard {
  const nameByRef = new Map(documentDevices.map((device) => [device.ref, device.name || device.ref]));
  return {
    name: newName || name,
    description,
    visibility: 'organization',
    editorRoleIds: [],
    content: convertDevices(content, {
      series: (series) => importSeries(series, devices, nameByRef),
      device: (ref) => devices.get(ref),
    }),
  };
}

function importSeries(
  series: SeriesRef,
  devices: ReadonlyMap<string, string>,
  nameByRef: ReadonlyMap<string, string>,
): SeriesRef {
  if (series.deviceId === '') return series;
  const deviceId = devices.get(series.deviceId);
  if (deviceId !== undefined) return { ...series, deviceId };
  return { ...series, deviceId: '', missingDevice: nameByRef.get(series.deviceId) ?? series.deviceId };
}
