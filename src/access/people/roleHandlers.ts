import type { AccessControlServiceServer } from '../../gen/organization_access_control/access_control_service';
import type { Cursors } from '../../kernel/pages';
import { withCheck, type HandlersOf } from '../../api/pipeline/handlers';
import { roleToMessage } from './peopleMessages';
import type { RoleService } from './roleService';

/** Handlers for roles. */
export function roleHandlers(
  roles: RoleService,
  cursors: Cursors,
): Pick<HandlersOf<AccessControlServiceServer>, 'listRoles' | 'createRole' | 'updateRole' | 'deleteRole'> {
  return {
    listRoles: async (request, context) => {
      const { items, nextPageToken } = await roles.listPage(
        context.organizationId,
        cursors,
        request.pageSize,
        request.pageToken,
      );
      return { roles: items.map(roleToMessage), nextPageToken };
    },

    createRole: withCheck(
      ({ scopes }) => roles.checkScopes(scopes),
      async ({ name, description, scopes }, context) => {
        const role = await roles.create(context.principal, context.organizationId, { name, description, scopes });
        return roleToMessage(role);
      },
    ),

    updateRole: withCheck(
      ({ scopes }) => roles.checkScopes(scopes),
      async ({ id, name, description, scopes, etag }, context) => {
        const role = await roles.update(
          context.principal,
          context.organizationId,
          id,
          { name, description, scopes: scopes.length > 0 ? scopes : undefined },
          etag,
        );
        return roleToMessage(role);
      },
    ),

    deleteRole: async ({ id }, context) => {
      await roles.delete(context.principal, context.organizationId, id);
      return {};
    },
  };
}
