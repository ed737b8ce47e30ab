import {
  auditHandlers,
  AuditQueries,
  keyHandlers,
  KeyService,
  memberHandlers,
  MemberService,
  organizationHandlers,
  OrganizationService,
  roleHandlers,
  RoleService,
  userProfileHandlers,
  UserService,
} from '../../access';
import type { Foundation } from '../foundation';
import { createOrganizationDeletion } from '../organizationDeletion';
import { createReferenceCheckers } from '../references';
import type { Authentication } from './createAuthentication';

/** What access needs of other modules. */
interface AccessHooks {
  /** Starts the removal of a deleted organization's data. */
  readonly onOrganizationDeleted: () => void;
  /** Returns the gRPC paths of the methods with a name. */
  readonly findMethodPaths: (name: string) => readonly string[];
}

/** Creates the handlers of keys, members, roles, the audit trail, organizations and users. */
export function createAccess(
  { database, clock }: Foundation,
  { uow, cursors, auditLog, keyChanged, accessChanged }: Authentication,
  { onOrganizationDeleted, findMethodPaths }: AccessHooks,
) {
  const deletion = createOrganizationDeletion({ database, clock }, (organizationId) => {
    accessChanged(organizationId);
    onOrganizationDeleted();
  });
  const keys = new KeyService({
    uow,
    clock,
    cursors,
    keyChanged,
    referenceCheckers: createReferenceCheckers(database),
  });
  const auditQueries = new AuditQueries({ database, cursors, trail: auditLog, findMethodPaths });
  return {
    accessControlHandlers: {
      ...keyHandlers(keys),
      ...memberHandlers(new MemberService({ uow, clock, accessChanged }), cursors),
      ...roleHandlers(new RoleService({ uow, clock, accessChanged }), cursors),
      ...auditHandlers(auditQueries),
    },
    organizationHandlers: organizationHandlers(new OrganizationService({ uow, clock }), deletion, cursors),
    userProfileHandlers: userProfileHandlers(new UserService({ uow, clock })),
  };
}
