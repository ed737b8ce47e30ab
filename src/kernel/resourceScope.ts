/** The resources of an organization that a restricted key can access. */
export interface ResourceScope {
  /** Undefined: every device. */
  readonly devices: DeviceScope | undefined;
  /** Command ids; undefined: every command. */
  readonly commands: ReadonlySet<string> | undefined;
}

/** A device is in scope if it is listed, or bound to a listed connection. */
export interface DeviceScope {
  readonly ids: ReadonlySet<string>;
  readonly connectionIds: ReadonlySet<string>;
}

/** Checks whether a device is in scope, by its current binding; with an undefined scope every device is. */
export function isDeviceInScope(
  scope: DeviceScope | undefined,
  deviceId: string,
  connectionId: string | null | undefined,
): boolean {
  return (
    !scope || scope.ids.has(deviceId) || (typeof connectionId === 'string' && scope.connectionIds.has(connectionId))
  );
}

/**
 * Checks whether `outer` includes everything that `inner` includes. An undefined scope includes the whole organization,
 * an undefined list every device or command.
 */
export function isScopeWithin(inner: ResourceScope | undefined, outer: ResourceScope | undefined): boolean {
  if (!outer || inner === outer) return true;
  return (
    isDeviceScopeWithin(inner?.devices, outer.devices) && (!outer.commands || isSubset(inner?.commands, outer.commands))
  );
}

/**
 * Like isScopeWithin, for the devices. A device list and a connection list are compared separately, although a listed
 * connection may include a listed device.
 */
function isDeviceScopeWithin(inner: DeviceScope | undefined, outer: DeviceScope | undefined): boolean {
  return !outer || (isSubset(inner?.ids, outer.ids) && isSubset(inner?.connectionIds, outer.connectionIds));
}

/** Whether all ids are in the other set; false for undefined, which means all ids. */
function isSubset(ids: ReadonlySet<string> | undefined, superset: ReadonlySet<string>): boolean {
  return ids !== undefined && [...ids].every((id) => superset.has(id));
}

/** Kinds of resources to which a key can be restricted; the names of `plantroom.v1.ResourceKind`. */
export type ResourceKind = 'device' | 'command' | 'execution' | 'connection' | 'sensor' | 'media';

/** The resources of one kind that a request names. */
export interface NamedResources {
  readonly kind: ResourceKind;
  readonly ids: readonly string[];
}
