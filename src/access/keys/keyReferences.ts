import type { Violation } from '../../kernel/errors';
import { isId } from '../../kernel/ids';
import type { Principal } from '../../kernel/principal';
import { isScope } from '../../kernel/scopes';
import type { Member } from '../people/member';
import type { KeyGrant, KeyRestrictions } from './apiKey';

/** Tells which of these ids an organization does not have. */
export type Missing = (organizationId: string, ids: readonly string[]) => Promise<readonly string[]>;

/** What keys name and other rooms keep. Those stand above this room, so app.ts hands it down. */
export interface MissingThings {
  /** Connections of gateways. */
  readonly gateways: Missing;
  /** Connections of whatever kind. */
  readonly connections: Missing;
  readonly devices: Missing;
  readonly commands: Missing;
}

/** What a grant names; of a change only what is given anew. */
export type Named = Pick<KeyGrant, 'connectionIds' | 'restrictions'>;

/** As many as the proto allows: of a list that is too long the rest is not looked at. */
const MOST = 1000;

/**
 * Names what a grant refers to that is not there. What lies outside of the caller's own reach is not looked for, so that nobody learns
 * whether it is there; undefined: the command line.
 */
export async function unknownReferences(organizationId: string, { connectionIds, restrictions = NOTHING }: Named, missing: MissingThings, caller?: Principal): Promise<Violation[]> {
  const own = caller ? reachedBy(caller) : EVERYTHING;
  const looks: Look[] = [
    { ids: connectionIds, missing: missing.gateways, within: own.gateways, field: 'connectionIds', what: 'a gateway connection', list: 'connections' },
    { ids: restrictions.deviceIds, missing: missing.devices, within: own.devices, field: 'restrictions.deviceIds', what: 'a device', list: 'devices' },
    { ids: restrictions.connectionIds, missing: missing.connections, within: own.connections, field: 'restrictions.connectionIds', what: 'a connection', list: 'connections' },
    { ids: restrictions.commandIds, missing: missing.commands, within: own.commands, field: 'restrictions.commandIds', what: 'a command', list: 'commands of the devices' },
  ];
  const violations: Violation[] = [];
  for (const look of looks) violations.push(...(await unknown(organizationId, look)));
  return violations;
}

/** What is wrong with the owner of a new key, beside scopes that there are not. `owner`: undefined where the person is no member. */
export function ownerViolations(ownerUserId: string, owner: Member | undefined, scopes: readonly string[]): Violation[] {
  if (!owner) return [{ field: 'ownerUserId', description: `${JSON.stringify(ownerUserId)} is not a member of this organization; list the members to see those that are, or add the person first` }];
  const held = new Set(owner.scopes);
  return scopes.flatMap((scope, at) =>
    held.has(scope) || !isScope(scope) ? [] : [{ field: `scopes[${at}]`, description: `${JSON.stringify(scope)} is not held by ${owner.roleName}, the role of the owner; leave it out, or choose another owner or role` }],
  );
}

/** Ids that somebody reaches; undefined: every one. */
type Reached = Readonly<Record<'gateways' | 'devices' | 'connections' | 'commands', ReadonlySet<string> | undefined>>;

const NOTHING: KeyRestrictions = { deviceIds: [], connectionIds: [], commandIds: [] };
const EVERYTHING: Reached = { gateways: undefined, devices: undefined, connections: undefined, commands: undefined };

function reachedBy({ connections, reach }: Principal): Reached {
  return { gateways: connections === 'all' ? undefined : connections, devices: reach?.devices?.ids, connections: reach?.devices?.connectionIds, commands: reach?.commands };
}

interface Look {
  readonly ids: readonly string[];
  readonly missing: Missing;
  /** Undefined: every id is looked for. */
  readonly within: ReadonlySet<string> | undefined;
  readonly field: string;
  readonly what: string;
  readonly list: string;
}

async function unknown(organizationId: string, { ids, missing, within, field, what, list }: Look): Promise<Violation[]> {
  const looked = ids.slice(0, MOST).map((id, at) => ({ id, at })).filter(({ id }) => !within || within.has(id));
  const possible = looked.map(({ id }) => id).filter(isId);
  const unknownIds = new Set(possible.length > 0 ? await missing(organizationId, possible) : []);
  return looked
    .filter(({ id }) => unknownIds.has(id) || !isId(id))
    .map(({ id, at }) => ({ field: `${field}[${at}]`, description: `${JSON.stringify(id)} is not ${what} of this organization; list the ${list} to see those that are` }));
}
