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
