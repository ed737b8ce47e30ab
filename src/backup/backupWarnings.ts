import { joinFirst } from '../kernel/truncate';

/** The connections with secrets. */
export interface EncryptedConnections {
  /** The number of connections with secrets. */
  readonly totalCount: number;
  /** The names of those that no key of the server can decrypt. */
  readonly undecryptableNames: readonly string[];
  /** Whether the key that encrypts them is in the backup. */
  readonly isKeyIncluded: boolean;
}

const MAX_LISTED_NAMES = 3;

/** Returns what the backup lacks, in complete sentences. `missing`: the paths of missing image files. */
export function listWarnings(
  missing: readonly string[],
  { totalCount, undecryptableNames, isKeyIncluded }: EncryptedConnections,
): readonly string[] {
  const warnings: string[] = [];
  if (missing.length > 0) {
    warnings.push(
      `${missing.length} image files are missing in the data folder, so they are not in the backup: ${joinFirst(missing, MAX_LISTED_NAMES)}. Restore them from an older backup, or upload the images again`,
    );
  }
  if (undecryptableNames.length > 0) {
    warnings.push(
      `the secrets of ${undecryptableNames.length} connections cannot be decrypted because their key is missing (${joinFirst(undecryptableNames, MAX_LISTED_NAMES)}): restore the old secrets.key, or enter the secrets again`,
    );
  } else if (totalCount > 0 && !isKeyIncluded) {
    warnings.push(
      `the secrets of ${totalCount} connections are encrypted with a key from the configuration, which is not in the backup: store a copy of that key elsewhere`,
    );
  }
  return warnings;
}
