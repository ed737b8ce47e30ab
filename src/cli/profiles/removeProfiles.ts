import { DomainError } from '../../kernel/errors';
import type { UsedProfile } from '../../profiles';
import { withCore } from '../core';
import { UsageError } from '../exit';
import type { ConfigFlags } from '../options';
import { say, sayJson, showRecord, showTable } from '../output';
import { plainText } from '../plainText';
import { profileSource } from '../profileSource';

/** What `plantroom profiles remove` is given. */
export interface RemoveFlags extends ConfigFlags {
  readonly brand?: string;
  /** One of PROFILE_SOURCES. */
  readonly source?: string;
}

/** `plantroom profiles remove`. Throws `profile_in_use` where some stay, once the others are removed. */
export async function runRemove(ids: readonly string[], flags: RemoveFlags): Promise<void> {
  const [brandId, source] = [flags.brand, profileSource(flags.source)];
  const isSelected = brandId !== undefined || source !== undefined;
  if (ids.length > 0 === isSelected) throw new UsageError('say what to remove: ids of profiles, or --brand, --source or both');
  const fields = Object.entries({ brand: brandId, source }).flatMap(([name, value]) => (value === undefined ? [] : [name]));
  const change = { resource: 'device-profiles', fields: isSelected ? fields : ['ids'] };
  const { kept, ...done } = await withCore(flags, async (core) => await core.audit.changeOfAll('profiles remove', change, async (begin) => await core.profiles.removal.remove(isSelected ? { brandId, source } : { ids }, begin)));
  if (done.removed + kept.length === 0) throw new DomainError('not_found', 'profile_not_found', `no profile of ${[brandId === undefined ? '' : `the brand ${JSON.stringify(brandId)}`, source === undefined ? '' : `the source ${source}`].filter(Boolean).join(' and ')} was imported; \`plantroom profiles list\` shows those that are there`);
  if (flags.json) sayJson({ ...done, kept });
  else showRemoved(done, kept);
  if (kept.length > 0) throw inUse(kept);
}

function showRemoved(done: Readonly<Record<string, number>>, kept: readonly UsedProfile[]): void {
  showRecord({ ...done, kept: kept.length }, {});
  if (kept.length === 0) return;
  say('');
  showTable(kept.map(({ id, devices }) => ({ id: plainText(id), devices })), ['id', 'devices'], {});
}

function inUse(kept: readonly UsedProfile[]): DomainError {
  const [first] = kept;
  const which = kept.length === 1 ? `the profile ${JSON.stringify(first?.id)} stays, because ${first?.devices} ${first?.devices === 1 ? 'device uses' : 'devices use'} it` : `${kept.length} profiles stay, because devices use them`;
  return new DomainError('conflict', 'profile_in_use', `${which}; give those devices another configuration.profileId, or none, then remove it again`);
}
