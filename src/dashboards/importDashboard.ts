import { throwIfAny, type Violation } from '../kernel/errors';
import { bindDocument, type MissingReference } from './bindDocument';
import { getOptionDeviceIds } from './contentReferences';
import { assertWithinLimits } from './contentRules';
import { dashboardNameTaken, type DashboardWithContent, type Viewer } from './dashboard';
import { convertDevices, toReferenceKey, type DashboardDocument } from './dashboardDocument';
import { assertCreatable, createDashboard, type NewDashboard } from './createDashboard';
import type { DashboardOptions } from './dashboardService';

/** A document, and how to bind its devices. */
export interface DashboardImport {
  readonly document: DashboardDocument;
  /** Empty: the name in the document. */
  readonly name: string;
  /** Device ids by `ref`. */
  readonly devices: ReadonlyMap<string, string>;
  readonly dryRun: boolean;
}

/** The result of an import. */
export interface ImportResult {
  /** Undefined in a dry run. */
  readonly dashboard: DashboardWithContent | undefined;
  /** The ids of the devices that were found, by `ref`. */
  readonly devices: ReadonlyMap<string, string>;
  readonly missing: readonly MissingReference[];
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
  assertWithinLimits(document.content);
  throwIfAny([...checkDocument(document), ...checkWantedDevices(document, wanted)]);
  // Outside of the transaction, because searching 300 names takes 100 ms. The transaction checks the devices again.
  const { deviceIds, missing } = await bindDocument(work.repos, viewer.organizationId, document, wanted);
  const devices = listBoundRefs(document, deviceIds);
  const newDashboard = toNewDashboard(document, name, deviceIds);
  return await work.transaction(async (repos, db) => {
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

/** Returns the ids of the devices that were found, by ref. `deviceIds`: by toReferenceKey. */
function listBoundRefs(
  { devices }: DashboardDocument,
  deviceIds: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  return new Map(
    devices.flatMap(({ ref }): [string, string][] => {
      const deviceId = deviceIds.get(toReferenceKey({ deviceId: ref, missingDevice: '' }));
      return deviceId === undefined ? [] : [[ref, deviceId]];
    }),
  );
}

/** Returns the dashboard to create, with the devices that were found. `deviceIds`: by toReferenceKey. */
function toNewDashboard(
  { name, description, content, devices }: DashboardDocument,
  newName: string,
  deviceIds: ReadonlyMap<string, string>,
): NewDashboard {
  const nameByRef = new Map(devices.map((device) => [device.ref, device.name || device.ref]));
  return {
    name: newName || name,
    description,
    visibility: 'organization',
    editorRoleIds: [],
    content: convertDevices(content, (reference) => {
      const deviceId = deviceIds.get(toReferenceKey(reference));
      if (deviceId !== undefined) return { deviceId, missingDevice: '' };
      return { deviceId: '', missingDevice: nameByRef.get(reference.deviceId) ?? reference.missingDevice };
    }),
  };
}
