import { normalizeForSearch } from '../database';
import { notFound } from '../kernel/errors';
import { isId } from '../kernel/ids';
import type { DashboardContent, WidgetInput } from './dashboard';
import {
  getOptionDevice,
  listUsedCommands,
  listUsedConnections,
  listUsedKeys,
  toReferenceKey,
  type DashboardDocument,
  type DeviceReference,
} from './dashboardDocument';
import type { DashboardRepositories } from './dashboardRepositories';
import type { SiteDevice } from './siteRepository';

/** A device, sensors, a command or a connection that an import did not find. */
export interface MissingReference {
  /** Empty for a connection, and for a device that has no ref in the document. */
  readonly ref: string;
  /** Of the device or connection. */
  readonly name: string;
  /** Keys for which the device that was found does not have exactly one sensor. */
  readonly keyNames: readonly string[];
  /** The command that the device that was found does not have; empty for other reasons. */
  readonly commandName: string;
  readonly reason: 'not_found' | 'ambiguous' | 'sensor_not_found' | 'command_not_found' | 'connection_not_found';
}

/** The devices of a site that a document names, and what the site does not have. */
export interface Binding {
  /** Device ids by toReferenceKey. */
  readonly deviceIds: ReadonlyMap<string, string>;
  readonly missing: readonly MissingReference[];
}

/** A device of a document. */
interface NamedDevice {
  readonly reference: DeviceReference;
  readonly ref: string;
  readonly name: string;
  readonly clientDeviceId: string;
}

/**
 * Finds what a document names in an organization. `wantedIds`: the device for a ref. Throws `device_not_found` if one
 * of these does not exist.
 */
export async function bindDocument(
  repos: DashboardRepositories,
  organizationId: string,
  document: DashboardDocument,
  wantedIds: ReadonlyMap<string, string>,
): Promise<Binding> {
  const devices = listNamedDevices(document);
  const candidates = await findCandidates(repos, organizationId, devices, wantedIds);
  const deviceIds = new Map<string, string>();
  const missing: MissingReference[] = [];
  for (const [index, device] of devices.entries()) {
    const [only, ...others] = candidates[index] ?? [];
    if (only && others.length === 0) deviceIds.set(toReferenceKey(device.reference), only.id);
    else missing.push(reportMissing(device, only ? 'ambiguous' : 'not_found'));
  }
  const bound = devices.flatMap((device): BoundDevice[] => {
    const deviceId = deviceIds.get(toReferenceKey(device.reference));
    return deviceId === undefined ? [] : [{ ...device, deviceId }];
  });
  return {
    deviceIds,
    missing: [
      ...missing,
      ...(await checkSensors(repos, organizationId, document.content, bound)),
      ...(await checkCommands(repos, organizationId, document.content, bound)),
      ...(await checkConnections(repos, organizationId, document.content)),
    ],
  };
}

/** Lists the devices with a ref, then those that an earlier import did not find, each once. */
function listNamedDevices({ content, devices }: DashboardDocument): NamedDevice[] {
  const names = content.widgets.flatMap(({ series, options }) => [
    ...series.map(({ missingDevice }) => missingDevice),
    getOptionDevice(options)?.missingDevice ?? '',
  ]);
  return [
    ...devices.map(({ ref, name, clientDeviceId }) => ({
      reference: { deviceId: ref, missingDevice: '' },
      ref,
      name,
      clientDeviceId,
    })),
    ...[...new Set(names.filter((name) => name !== ''))].map((name) => ({
      reference: { deviceId: '', missingDevice: name },
      ref: '',
      name,
      clientDeviceId: '',
    })),
  ];
}

/**
 * Returns for each device the devices of the organization that it may be: the wanted one, those with its
 * clientDeviceId, or unless that is exactly one, those with its name.
 */
async function findCandidates(
  { site }: DashboardRepositories,
  organizationId: string,
  devices: readonly NamedDevice[],
  wantedIds: ReadonlyMap<string, string>,
): Promise<(readonly SiteDevice[])[]> {
  const ids = [...new Set(wantedIds.values())];
  const wanted = await site.findDevices(organizationId, ids.filter(isId));
  const wantedById = new Map(wanted.map((device) => [device.id, [device]]));
  const unknownId = ids.find((id) => !wantedById.has(id));
  if (unknownId !== undefined) throw notFound('device', unknownId);
  const others = devices.filter(({ ref }) => !wantedIds.has(ref));
  const byClientId = await site.findByClientDeviceIds(
    organizationId,
    others.map(({ clientDeviceId }) => clientDeviceId).filter((id) => id !== ''),
  );
  const unbound = others.filter(({ clientDeviceId }) => byClientId.get(clientDeviceId)?.length !== 1);
  const byName = await site.findByNames(
    organizationId,
    unbound.map(({ name }) => name).filter((name) => name !== ''),
  );
  return devices.map(({ ref, name, clientDeviceId }) => {
    const withClientId = byClientId.get(clientDeviceId) ?? [];
    const withName = byName.get(normalizeForSearch(name)) ?? [];
    const found = withClientId.length === 1 || withName.length === 0 ? withClientId : withName;
    return wantedById.get(wantedIds.get(ref) ?? '') ?? found;
  });
}

type BoundDevice = NamedDevice & { readonly deviceId: string };

/** Reports the keys for which a device does not have exactly one sensor. */
async function checkSensors(
  { site }: DashboardRepositories,
  organizationId: string,
  content: DashboardContent<WidgetInput>,
  devices: readonly BoundDevice[],
): Promise<MissingReference[]> {
  const usedKeys = Map.groupBy(listUsedKeys(content), ({ device }) => toReferenceKey(device));
  const sensors = await site.listSensorsOfDevices(organizationId, toDeviceIds(devices));
  const sensorsByDevice = Map.groupBy(sensors, ({ deviceId }) => deviceId);
  return devices.flatMap((device) => {
    const keyNames = [...new Set(usedKeys.get(toReferenceKey(device.reference))?.map(({ keyName }) => keyName))];
    const available = Map.groupBy(sensorsByDevice.get(device.deviceId) ?? [], ({ keyName }) => keyName);
    const without = keyNames.filter((keyName) => !available.has(keyName)).toSorted();
    const withSeveral = keyNames.filter((keyName) => (available.get(keyName)?.length ?? 0) > 1).toSorted();
    return [
      ...(without.length > 0 ? [{ ...reportMissing(device, 'sensor_not_found'), keyNames: without }] : []),
      ...(withSeveral.length > 0 ? [{ ...reportMissing(device, 'ambiguous'), keyNames: withSeveral }] : []),
    ];
  });
}

async function checkCommands(
  { site }: DashboardRepositories,
  organizationId: string,
  content: DashboardContent<WidgetInput>,
  devices: readonly BoundDevice[],
): Promise<MissingReference[]> {
  const usedCommands = Map.groupBy(listUsedCommands(content), ({ device }) => toReferenceKey(device));
  const withCommands = devices.filter(({ reference }) => usedCommands.has(toReferenceKey(reference)));
  const commands = await site.listCommands(organizationId, toDeviceIds(withCommands));
  const existing = new Set(commands.map(({ deviceId, foldedName }) => JSON.stringify([deviceId, foldedName])));
  return withCommands.flatMap((device) => {
    const used = usedCommands.get(toReferenceKey(device.reference)) ?? [];
    const names = new Map(used.map(({ commandName }) => [normalizeForSearch(commandName), commandName]));
    return [...names]
      .filter(([foldedName]) => !existing.has(JSON.stringify([device.deviceId, foldedName])))
      .map(([, commandName]) => ({ ...reportMissing(device, 'command_not_found'), commandName }));
  });
}

async function checkConnections(
  { site }: DashboardRepositories,
  organizationId: string,
  content: DashboardContent<WidgetInput>,
): Promise<MissingReference[]> {
  const names = listUsedConnections(content);
  const existing = new Set(await site.findConnectionNames(organizationId, names));
  return names
    .filter((name) => !existing.has(normalizeForSearch(name)))
    .map((name) => reportMissing({ ref: '', name }, 'connection_not_found'));
}

function toDeviceIds(devices: readonly BoundDevice[]): string[] {
  return [...new Set(devices.map(({ deviceId }) => deviceId))];
}

function reportMissing(
  { ref, name }: Pick<NamedDevice, 'ref' | 'name'>,
  reason: MissingReference['reason'],
): MissingReference {
  return { ref, name, keyNames: [], commandName: '', reason };
}
