/** The connections with secrets. */
export interface SealedConnections {
  readonly all: number;
  /** The names of those that no key of the server opens. */
  readonly lost: readonly string[];
  /** The key that they are sealed with is in the backup. */
  readonly isKeyIn: boolean;
}

const NAMED = 3;

/** What a person should know of a backup that lacks something. */
export function warningsOf(missing: readonly string[], { all, lost, isKeyIn }: SealedConnections): readonly string[] {
  const warnings: string[] = [];
  if (missing.length > 0) warnings.push(`${missing.length} files of pictures are missing in the data folder, so they are not in the backup: ${named(missing)}; put them back from an older backup, or upload the pictures again`);
  if (lost.length > 0) warnings.push(`the secrets of ${lost.length} connections were sealed with a key that is not there (${named(lost)}); put the old secrets.key back, or give the secrets again`);
  else if (all > 0 && !isKeyIn) warnings.push(`the secrets of ${all} connections are sealed with a key that is not in the backup, since the configuration gives it; keep a copy of that key elsewhere`);
  return warnings;
}

function named(names: readonly string[]): string {
  return names.length <= NAMED ? names.join(', ') : `${names.slice(0, NAMED).join(', ')} and ${names.length - NAMED} more`;
}
