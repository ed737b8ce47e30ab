import { SCOPES } from '../../kernel/scopes';

/** A set of scopes that limits the keys of a member in an organization. Times are Unix milliseconds. */
export interface Role {
  /** For a system role its name in lower case, otherwise a UUIDv7. */
  readonly id: string;
  /** Empty for system roles. */
  readonly organizationId: string;
  /** Unique in the organization, case-insensitive. */
  readonly name: string;
  readonly description: string;
  readonly scopes: readonly string[];
  /** A system role, which cannot be changed. */
  readonly isSystem: boolean;
  /** Undefined for system roles. */
  readonly createdAt: number | undefined;
  /** Undefined for system roles. */
  readonly updatedAt: number | undefined;
  /** The number of changes, starting at 1. The etag is derived from it. */
  readonly revision: number;
}

const VIEWER_SCOPES = [
  'users:read',
  'organizations:read',
  'devices:read',
  'sensors:read',
  'commands:read',
  'telemetry:read',
  'connections:read',
  'media:read',
  'dashboards:read',
] as const;

/** The system roles, which every organization has, the most powerful first. */
export const SYSTEM_ROLES: readonly Role[] = [
  createSystemRole('owner', 'Owner', 'everything, including the management of owners', SCOPES),
  createSystemRole('admin', 'Admin', 'everything except the management of owners', SCOPES),
  createSystemRole('operator', 'Operator', 'views the site and executes commands', [
    ...VIEWER_SCOPES,
    'commands:execute',
  ]),
  createSystemRole('viewer', 'Viewer', 'views the site', VIEWER_SCOPES),
];

/** Returns a system role; undefined for any other id. */
export function findSystemRole(id: string): Role | undefined {
  return SYSTEM_ROLES.find((role) => role.id === id);
}

/** Creates a system role. */
function createSystemRole(id: string, name: string, description: string, scopes: readonly string[]): Role {
  return {
    id,
    organizationId: '',
    name,
    description,
    scopes,
    isSystem: true,
    createdAt: undefined,
    updatedAt: undefined,
    revision: 1,
  };
}
