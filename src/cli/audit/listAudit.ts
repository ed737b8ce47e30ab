import type { AuditEvent } from '../../access';
import type { Core } from '../../app';
import { withCore } from '../core';
import type { ConfigFlags } from '../options';
import { showTable } from '../output';
import { namedOrganization } from '../people/organizationFlag';
import { noChain } from './noChain';

/** What `plantroom audit list` is given. Times are Unix milliseconds. */
export interface ListFlags extends ConfigFlags {
  readonly organization?: string;
  readonly from?: number;
  readonly to?: number;
  readonly key?: string;
  readonly user?: string;
  readonly method?: string;
  readonly resource?: string;
  readonly outcome?: AuditEvent['outcome'];
  readonly request?: string;
  readonly limit: number;
}

/** What `plantroom audit head` is given. */
export interface HeadFlags extends ConfigFlags {}

/** `plantroom audit list`. */
export async function runList(flags: ListFlags): Promise<void> {
  const { from, to, key: keyId, user: userId, method, resource, outcome, request: requestId } = flags;
  const events = await withCore(flags, async (core) => {
    const methods = method === undefined ? undefined : core.methodsNamed(method);
    return await core.archive.newest(await chainOf(core, flags.organization), { from, to, keyId, userId, methods, resource, outcome, requestId }, flags.limit);
  });
  const rows = events.map(shown);
  // A table is for the eye: which request it was, and the package of the method, --json tells.
  const forPeople = flags.json ? rows : rows.map((row) => ({ ...row, method: row.method.slice(row.method.lastIndexOf('/') + 1) }));
  showTable(forPeople, ['sequence', 'time', 'by', 'method', 'resource', 'outcome', 'reason', 'count'], flags);
}

/** `plantroom audit head`. */
export async function runHead(flags: HeadFlags): Promise<void> {
  const heads = await withCore(flags, async (core) => {
    const found: { organizationId: string; head: string; events: number }[] = [];
    for await (const chain of core.archive.chains()) {
      const ends = await core.archive.ends(chain);
      if (ends) found.push({ organizationId: chain, head: `${ends.lastSeq}:${ends.lastHash}`, events: ends.lastSeq - ends.firstSeq + 1 });
    }
    return found;
  });
  showTable(heads, ['organizationId', 'events', 'head'], flags);
}

/** The chain that is meant: an organization's, also of one that is no more; the only one there is; or that of none. Throws `organization_not_found`, `organization_ambiguous`. */
export async function chainOf(core: Core, organization: string | undefined): Promise<string> {
  const named = namedOrganization({ organization });
  if (named === 'none') return '';
  if (named === undefined) return (await core.organizations.pick(undefined)).id;
  const isThere = (await core.archive.ends(named)) !== undefined || (await core.organizations.list()).some(({ id }) => id === named);
  if (!isThere) throw noChain(named);
  return named;
}

function shown(event: AuditEvent) {
  const { chain: organizationId, seq: sequence, at, actor, keyId = '', keyPrefix, userId = '', peer, ...others } = event;
  const who = actor === 'key' ? keyPrefix || 'no known key' : actor.replaceAll('_', ' ');
  return { organizationId, sequence, time: new Date(at).toISOString(), by: [who, peer].filter(Boolean).join(' from '), actor, keyId, keyPrefix, userId, peer, ...others };
}
