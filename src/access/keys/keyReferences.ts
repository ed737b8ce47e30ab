import type { Violation } from '../../kernel/errors';
import { isId } from '../../kernel/ids';
import type { Principal } from '../../kernel/principal';
import { expandScopes, isScope } from '../../kernel/scopes';
import type { Member } from '../people/member';
import type { KeyGrant, KeyRestrictions } from './apiKey';

/** Returns the ids that do not exist in an organization. */
export type FindMissing = (organizationId: string, ids: readonly string[]) => Promise<readonly string[]>;

/**
 * Checks for records of other modules that keys refer to. Those modules are above this one, so the composition root
 * (server) passes the functions.
 */
export interface ReferenceCheckers {
  /** Connections of gateways. */
  readonly gateways: FindMissing;
  /** Connections of any type. */
  readonly connections: FindMissing;
  readonly devices: FindMissing;
  readonly commands: FindMissing;
}

/** The references of a grant, or of a change. */
export type KeyReferences = Pick<KeyGrant, 'connectionIds' | 'restrictions'>;

/** The maximum number of ids that the proto allows; further ids are not checked. */
const MAX_REFERENCES = 1000;

/**
 * Returns a violation for each reference that does not exist. Ids outside the permissions of the caller are not
 * checked, so that a caller cannot find out whether they exist. `caller`: undefined for the command line.
 */
export async function findUnknownReferences(
  organizationId: string,
  { connectionIds, restrictions = NOTHING }: KeyReferences,
  checkers: ReferenceCheckers,
  caller?: Principal,
): Promise<Violation[]> {
  const accessibleIds = caller ? getAccessibleIds(caller) : EVERYTHING;
  const checks: ReferenceCheck[] = [
    {
      ids: connectionIds,
      findMissing: checkers.gateways,
      accessibleIds: accessibleIds.gateways,
      field: 'connectionIds',
      noun: 'a gateway connection',
      listName: 'connections',
    },
    {
      ids: restrictions.deviceIds,
      findMissing: checkers.devices,
      accessibleIds: accessibleIds.devices,
      field: 'restrictions.deviceIds',
      noun: 'a device',
      listName: 'devices',
    },
    {
      ids: restrictions.connectionIds,
      findMissing: checkers.connections,
      accessibleIds: accessibleIds.connections,
      field: 'restrictions.connectionIds',
      noun: 'a connection',
      listName: 'connections',
    },
    {
      ids: restrictions.commandIds,
      findMissing: checkers.commands,
      accessibleIds: accessibleIds.commands,
      field: 'restrictions.commandIds',
      noun: 'a command',
      listName: 'commands of the devices',
    },
  ];
  const violations: Violation[] = [];
  for (const check of checks) violations.push(...(await findUnknown(organizationId, check)));
  return violations;
}

/**
 * Returns the violations of the owner of a new key; unknown scopes are ignored, because findGrantViolations reports
 * them. `owner`: undefined if the user is not a member.
 */
export function findOwnerViolations(
  ownerUserId: string,
  owner: Member | undefined,
  scopes: readonly string[],
): Violation[] {
  if (!owner)
    return [
      {
        field: 'ownerUserId',
        description: `${JSON.stringify(ownerUserId)} is not a member of this organization: use a user from the list of members, or add the user first`,
      },
    ];
  const ownerScopes = expandScopes(owner.scopes);
  return scopes.flatMap((scope, index) =>
    ownerScopes.has(scope) || !isScope(scope)
      ? []
      : [
          {
            field: `scopes[${index}]`,
            description: `${JSON.stringify(scope)} is not a scope of ${owner.roleName}, the role of the owner: remove it, or use another owner or role`,
          },
        ],
  );
}

/** The ids that a caller can access; undefined: all. */
type AccessibleIds = Readonly<
  Record<'gateways' | 'devices' | 'connections' | 'commands', ReadonlySet<string> | undefined>
>;

const NOTHING: KeyRestrictions = { deviceIds: [], connectionIds: [], commandIds: [] };
const EVERYTHING: AccessibleIds = {
  gateways: undefined,
  devices: undefined,
  connections: undefined,
  commands: undefined,
};

/** Returns the ids that the caller's limits name, by kind of record. `connections` of a key are gateway connections. */
function getAccessibleIds({ connections, resourceScope: scope }: Principal): AccessibleIds {
  return {
    gateways: connections === 'all' ? undefined : connections,
    devices: scope?.devices?.ids,
    connections: scope?.devices?.connectionIds,
    commands: scope?.commands,
  };
}

/** One list of ids to check, with the words for the violations. */
interface ReferenceCheck {
  readonly ids: readonly string[];
  readonly findMissing: FindMissing;
  /** Undefined: every id is checked. */
  readonly accessibleIds: ReadonlySet<string> | undefined;
  readonly field: string;
  readonly noun: string;
  readonly listName: string;
}

/**
 * Returns a violation for each id of one list that does not exist in the organization. Ids with an invalid format are
 * reported without a query.
 */
async function findUnknown(
  organizationId: string,
  { ids, findMissing, accessibleIds, field, noun, listName }: ReferenceCheck,
): Promise<Violation[]> {
  const candidates = ids
    .slice(0, MAX_REFERENCES)
    .map((id, index) => ({ id, index }))
    .filter(({ id }) => !accessibleIds || accessibleIds.has(id));
  const validIds = candidates.map(({ id }) => id).filter(isId);
  const unknownIds = new Set(validIds.length > 0 ? await findMissing(organizationId, validIds) : []);
  return candidates
    .filter(({ id }) => unknownIds.has(id) || !isId(id))
    .map(({ id, index }) => ({
      field: `${field}[${index}]`,
      description: `${JSON.stringify(id)} is not ${noun} of this organization: use an id from the list of ${listName}`,
    }));
}
