/** What of its organization a limited key reaches. */
export interface Reach {
  /** Undefined: every device. */
  readonly devices: DeviceReach | undefined;
  /** Ids of commands; undefined: every command. */
  readonly commands: ReadonlySet<string> | undefined;
}

/** A device is inside if it is named, or bound to a connection that is. */
export interface DeviceReach {
  readonly ids: ReadonlySet<string>;
  readonly connectionIds: ReadonlySet<string>;
}

/** Whether a device lies inside, by where it is bound now; undefined: everything does. */
export function isDeviceInside(reach: DeviceReach | undefined, deviceId: string, connectionId: string | null | undefined): boolean {
  return !reach || reach.ids.has(deviceId) || (typeof connectionId === 'string' && reach.connectionIds.has(connectionId));
}

/** Whether whoever reaches the first reaches nothing beyond the second, by what they name; undefined: everything. */
export function isWithinReach(inner: Reach | undefined, outer: Reach | undefined): boolean {
  if (!outer || inner === outer) return true;
  return areWithin(inner?.devices, outer.devices) && (!outer.commands || isPart(inner?.commands, outer.commands));
}

function areWithin(inner: DeviceReach | undefined, outer: DeviceReach | undefined): boolean {
  return !outer || (isPart(inner?.ids, outer.ids) && isPart(inner?.connectionIds, outer.connectionIds));
}

function isPart(ids: ReadonlySet<string> | undefined, whole: ReadonlySet<string>): boolean {
  return ids !== undefined && [...ids].every((id) => whole.has(id));
}
