import { DomainError } from '../../kernel/errors';
import type { UsedProfile } from '../../profiles';
import { withAdminContext } from '../core';
import { UsageError } from '../exit';
import type { ConfigFlags } from '../options';
import { print, printJson, showRecord, showTable } from '../output';
import { toPlainText } from '../plainText';
import { parseProfileSource } from '../profileSource';

/** Flags of `plantroom profiles remove`. */
export interface RemoveFlags extends ConfigFlags {
  readonly brand?: string;
  /** One of PROFILE_SOURCES. */
  readonly source?: string;
}

/**
 * Runs `plantroom profiles remove`. Throws `profile_in_use` if some profiles are in use, after the others are removed.
 */
export async function runRemove(ids: readonly string[], flags: RemoveFlags): Promise<void> {
  const brandId = flags.brand;
  const source = parseProfileSource(flags.source);
  const hasIds = ids.length > 0;
  const hasSelection = brandId !== undefined || source !== undefined;
  if (hasIds === hasSelection)
    throw new UsageError('specify what to remove: profile ids, or --brand, --source or both');
  const fields = Object.entries({ brand: brandId, source }).flatMap(([name, value]) =>
    value === undefined ? [] : [name],
  );
  const change = { resource: 'device-profiles', fields: hasSelection ? fields : ['ids'] };
  const { kept, ...counts } = await withAdminContext(
    flags,
    async (admin) =>
      await admin.audit.recordChangeOfAll(
        'profiles remove',
        change,
        async (begin) => await admin.profiles.removal.remove(hasSelection ? { brandId, source } : { ids }, begin),
      ),
  );
  if (counts.removed + kept.length === 0)
    throw new DomainError(
      'not_found',
      'profile_not_found',
      `no profiles of ${formatSelection(brandId, source)} are imported; run \`plantroom profiles list\` to see the imported profiles`,
    );
  if (flags.json) printJson({ ...counts, kept });
  else showRemoved(counts, kept);
  if (kept.length > 0) throw profileInUse(kept);
}

/** Formats the selection of --brand and --source, for an error message. */
function formatSelection(brandId: string | undefined, source: string | undefined): string {
  const parts = [
    brandId === undefined ? '' : `the brand ${JSON.stringify(brandId)}`,
    source === undefined ? '' : `the source ${source}`,
  ];
  return parts.filter(Boolean).join(' and ');
}

function showRemoved(counts: Readonly<Record<string, number>>, kept: readonly UsedProfile[]): void {
  showRecord({ ...counts, kept: kept.length }, {});
  if (kept.length === 0) return;
  print('');
  showTable(
    kept.map(({ id, devices }) => ({ id: toPlainText(id), devices })),
    ['id', 'devices'],
    {},
  );
}

/** Creates the error for profiles that were not removed. */
function profileInUse(kept: readonly UsedProfile[]): DomainError {
  const [first] = kept;
  const message =
    kept.length === 1
      ? `profile ${JSON.stringify(first?.id)} was not removed, because ${first?.devices} ${first?.devices === 1 ? 'device uses' : 'devices use'} it`
      : `${kept.length} profiles were not removed, because devices use them`;
  return new DomainError(
    'conflict',
    'profile_in_use',
    `${message}; change or remove configuration.profileId of these devices, then try again`,
  );
}
