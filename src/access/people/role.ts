import { SCOPES } from '../../kernel/scopes';

/** What a person may do at most in an organization: a set of scopes. Times are Unix milliseconds. */
export interface Role {
  /** Of the four that every organization has, its name in lower case; else a UUIDv7. */
  readonly id: string;
  /** Empty for the four. */
  readonly organizationId: string;
  /** Unique in the organization, whatever the case. */
  readonly name: string;
  readonly description: string;
  readonly scopes: readonly string[];
  /** One of the four; it cannot be changed. */
  readonly isSystem: boolean;
  /** Undefined for the four. */
  readonly createdAt: number | undefined;
  /** Undefined for the four. */
  readonly updatedAt: number | undefined;
  /** Counts the changes from 1; the etag is made of it. */
  readonly revision: number;
}

const VIEWER = ['users:read', 'organizations:read', 'devices:read', 'sensors:read', 'commands:read', 'telemetry:read', 'connections:read', 'media:read'] as const;

/** The four that every organization has, the most powerful first. */
export const SYSTEM_ROLES: readonly Role[] = [
  systemRole('owner', 'Owner', 'everything, and who else is an owner', SCOPES),
  systemRole('admin', 'Admin', 'everything but who is an owner', SCOPES),
  systemRole('operator', 'Operator', 'sees the site and executes commands', [...VIEWER, 'commands:write']),
  systemRole('viewer', 'Viewer', 'sees the site', VIEWER),
];

/** One of the four; undefined for any other id. */
export function systemRoleOf(id: string): Role | undefined {
  return SYSTEM_ROLES.find((role) => role.id === id);
}

function systemRole(id: string, name: string, description: string, scopes: readonly string[]): Role {
  return { id, organizationId: '', name, description, scopes, isSystem: true, createdAt: undefined, updatedAt: undefined, revision: 1 };
}
