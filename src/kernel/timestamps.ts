/** A google.protobuf.Timestamp as the generated code represents it. */
export interface TimestampMessage {
  seconds: number;
  nanos: number;
}

/** Converts Unix milliseconds to a Timestamp. */
export function toTimestamp(milliseconds: number): TimestampMessage {
  const seconds = Math.floor(milliseconds / 1000);
  // Seconds are rounded down, so `nanos` is never negative, even before 1970.
  return { seconds, nanos: (milliseconds - seconds * 1000) * 1_000_000 };
}

/** Converts optional Unix milliseconds to an optional Timestamp. */
export function optionalTimestamp(milliseconds: number | undefined): TimestampMessage | undefined {
  return milliseconds === undefined ? undefined : toTimestamp(milliseconds);
}

/** Converts a Timestamp to Unix milliseconds, rounded down. */
export function fromTimestamp(timestamp: TimestampMessage): number {
  return timestamp.seconds * 1000 + Math.floor(timestamp.nanos / 1_000_000);
}
