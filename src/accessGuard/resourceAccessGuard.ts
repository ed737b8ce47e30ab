import type { Database } from '../database';
import { DeviceScopeRepository, createMissingDevicesQuery, SensorRepository } from '../devices';
import { notFound } from '../kernel/errors';
import { isId } from '../kernel/ids';
import type { Principal } from '../kernel/principal';
import type { DeviceScope, NamedResources, ResourceKind, ResourceScope } from '../kernel/resourceScope';
import { mediaNotFound } from '../media';

/**
 * Returns the first of these ids whose resource is outside the scope of a restricted key or does not exist; undefined:
 * all exist inside the scope. The ids must be well-formed.
 */
type FindOutside<Scope> = (organizationId: string, scope: Scope, ids: readonly string[]) => Promise<string | undefined>;

/** The queries that the guard needs from the modules. */
interface ScopeQueries {
  readonly devices: FindOutside<DeviceScope>;
  /** Returns the devices that do not exist. */
  readonly missingDevices: (organizationId: string, ids: readonly string[]) => Promise<readonly string[]>;
  readonly sensors: FindOutside<DeviceScope>;
  readonly media: FindOutside<DeviceScope>;
  readonly executions: FindOutside<ResourceScope>;
}

/** The input of one check: a request with a restricted key, and the ids of one kind that it names. */
interface AccessCheck {
  readonly organizationId: string;
  readonly resourceScope: ResourceScope;
  readonly ids: readonly string[];
  /** All resources that the request names, of every kind. */
  readonly namedResources: readonly NamedResources[];
}

/**
 * Lets a restricted key access only resources inside its scope, which lists devices, connections and commands.
 * Resources outside the scope and missing ones are rejected with the same error, for example `device_not_found`, so
 * that callers cannot tell them apart.
 */
export class ResourceAccessGuard {
  constructor(private readonly queries: ScopeQueries) {}

  /**
   * Checks every named resource. Throws `device_not_found`, `command_not_found`, `execution_not_found`,
   * `connection_not_found`, `sensor_not_found`, `media_not_found`.
   */
  async assertAccess(
    { organizationId, resourceScope }: Principal,
    namedResources: readonly NamedResources[],
  ): Promise<void> {
    if (!resourceScope) return;
    for (const { kind, ids } of namedResources)
      await this.checkResources(kind, { organizationId, resourceScope, ids, namedResources });
  }

  /**
   * Checks the named resources of one kind. A key that is not limited by devices needs no check of devices, sensors,
   * media and connections: the service reports the missing ones.
   */
  private async checkResources(kind: ResourceKind, check: AccessCheck): Promise<void> {
    const { resourceScope } = check;
    if (kind === 'execution')
      return await assertInside(check, this.queries.executions, resourceScope, (id) => notFound('execution', id));
    if (kind === 'command') return await this.checkCommands(check);
    const { devices } = resourceScope;
    if (!devices) return;
    if (kind === 'device')
      return await assertInside(check, this.queries.devices, devices, (id) => notFound('device', id));
    if (kind === 'sensor')
      return await assertInside(check, this.queries.sensors, devices, (id) => notFound('sensor', id));
    if (kind === 'media') return await assertInside(check, this.queries.media, devices, mediaNotFound);
    this.checkConnections(check, devices);
  }

  /**
   * Checks named commands against the commands of the key. Whether the device of a command is in scope is not checked
   * here: requests name the device too.
   */
  private async checkCommands({
    organizationId,
    resourceScope: { commands },
    ids,
    namedResources,
  }: AccessCheck): Promise<void> {
    const outsideId = commands && ids.find((id) => !commands.has(id));
    if (outsideId === undefined) return;
    // If the device does not exist either, the service would report that first. The same error must be thrown here, so
    // that the caller cannot tell whether the command exists.
    for (const { kind, ids: deviceIds } of namedResources)
      if (kind === 'device') await this.assertDevicesExist(organizationId, deviceIds);
    throw notFound('command', outsideId);
  }

  /** Throws `device_not_found` for the first device that does not exist in the organization. */
  private async assertDevicesExist(organizationId: string, ids: readonly string[]): Promise<void> {
    // Here only missing devices matter, so no scope is passed to assertInside.
    const findMissingDevice: FindOutside<undefined> = async (_organizationId, _scope, candidates) => {
      const [firstMissing] = await this.queries.missingDevices(organizationId, candidates);
      return firstMissing;
    };
    await assertInside({ organizationId, ids }, findMissingDevice, undefined, (id) => notFound('device', id));
  }

  /** Checks named connections against those of the key. */
  private checkConnections({ ids }: AccessCheck, { connectionIds }: DeviceScope): void {
    const outsideId = ids.find((id) => !connectionIds.has(id));
    if (outsideId !== undefined) throw notFound('connection', outsideId);
  }
}

/**
 * Creates the queries of the guard: each returns the first of the given ids that is outside the scope of the key, or
 * does not exist.
 */
export function createScopeQueries(
  database: Database,
  services: Pick<ScopeQueries, 'media' | 'executions'>,
): ScopeQueries {
  const devices = new DeviceScopeRepository(database.db);
  const sensors = new SensorRepository(database.db);
  return {
    devices: async (...query) => await devices.findOutOfScope(...query),
    missingDevices: createMissingDevicesQuery(database),
    sensors: async (...query) => await sensors.findOutOfScope(...query),
    ...services,
  };
}

/**
 * Throws the error for the first id that is malformed, outside the scope or missing. Malformed ids are never looked up.
 */
async function assertInside<Scope>(
  { organizationId, ids }: Pick<AccessCheck, 'organizationId' | 'ids'>,
  findOutside: FindOutside<Scope>,
  scope: Scope,
  createNotFound: (id: string) => Error,
): Promise<void> {
  const malformedId = ids.find((id) => !isId(id));
  const outsideId = malformedId ?? (await findOutside(organizationId, scope, ids));
  if (outsideId !== undefined) throw createNotFound(outsideId);
}
