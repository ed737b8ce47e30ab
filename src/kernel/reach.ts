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

/** Whether whoever reaches the first reaches nothing beyond the second, by what they name; undefined: everything. */
export function isWithinReach(inner: Reach | undefined, outer: Reach | undefined): boolean {
  if (!outer) return true;
  const areDevices = !outer.devices || (isPart(inner?.devices?.ids, outer.devices.ids) && isPart(inner?.devices?.connectionIds, outer.devices.connectionIds));
  return areDevices && (!outer.commands || isPart(inner?.commands, outer.commands));
}

function isPart(ids: ReadonlySet<string> | undefined, whole: ReadonlySet<string>): boolean {
  return ids !== undefined && [...ids].every((id) => whole.has(id));
}
