import type { AuditEvent } from '../../access';
import type { AdminContext } from '../../server';
import { withAdminContext } from '../core';
import type { ConfigFlags } from '../options';
import { showTable } from '../output';
import { getOrganizationId } from '../people/organizationFlag';
import { auditChainNotFound } from './auditChainNotFound';

/** Options of `plantroom audit list`. Times are Unix milliseconds. */
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

/** Options of `plantroom audit head`. */
export interface HeadFlags extends ConfigFlags {}

/** Runs `plantroom audit list`. */
export async function runList(flags: ListFlags): Promise<void> {
  const { from, to, key: keyId, user: userId, method, resource, outcome, request: requestId } = flags;
  const events = await withAdminContext(flags, async (admin) => {
    const methods = method === undefined ? undefined : admin.findMethodPaths(method);
    return await admin.archive.listNewest(
      await getChain(admin, flags.organization),
      { from, to, keyId, userId, methods, resource, outcome, requestId },
      flags.limit,
    );
  });
  const rows = events.map(toRow);
  // The table omits the request id and the package of the method; --json has both.
  const tableRows = flags.json
    ? rows
    : rows.map((row) => ({ ...row, method: row.method.slice(row.method.lastIndexOf('/') + 1) }));
  showTable(tableRows, ['sequence', 'time', 'by', 'method', 'resource', 'outcome', 'reason', 'count'], flags);
}

/** Runs `plantroom audit head`: shows the last event of each chain, by its sequence number and hash. */
export async function runHead(flags: HeadFlags): Promise<void> {
  const heads = await withAdminContext(flags, async (admin) => {
    const found: { organizationId: string; head: string; events: number }[] = [];
    for await (const chain of admin.archive.listChains()) {
      const ends = await admin.archive.readEnds(chain);
      if (ends)
        found.push({
          organizationId: chain,
          head: `${ends.lastSeq}:${ends.lastHash}`,
          events: ends.lastSeq - ends.firstSeq + 1,
        });
    }
    return found;
  });
  showTable(heads, ['organizationId', 'events', 'head'], flags);
}

/**
 * Returns the chain that --organization selects, by the id of its organization (also a deleted one): without the flag
 * that of the only organization, and empty for `none`, the chain of the events without an organization. Throws
 * `organization_not_found`, `organization_ambiguous`.
 */
export async function getChain(admin: AdminContext, organization: string | undefined): Promise<string> {
  const organizationId = getOrganizationId({ organization });
  if (organizationId === 'none') return '';
  if (organizationId === undefined) return (await admin.organizations.getByIdOrOnly(undefined)).id;
  const exists =
    (await admin.archive.readEnds(organizationId)) !== undefined ||
    (await admin.organizations.list()).some(({ id }) => id === organizationId);
  if (!exists) throw auditChainNotFound(organizationId);
  return organizationId;
}

/** Converts an event to a row. `by`: the key (or other actor) that made the change, and its address if known. */
function toRow(event: AuditEvent) {
  const {
    chain: organizationId, // a chain has the id of its organization; empty: the events of no organization
    seq: sequence,
    at,
    actor,
    keyId = '',
    keyPrefix,
    userId = '',
    peer,
    ...others
  } = event;
  const actorName = actor === 'key' ? keyPrefix || 'unknown key' : actor.replaceAll('_', ' ');
  return {
    organizationId,
    sequence,
    time: new Date(at).toISOString(),
    by: [actorName, peer].filter(Boolean).join(' from '),
    actor,
    keyId,
    keyPrefix,
    userId,
    peer,
    ...others,
  };
}
