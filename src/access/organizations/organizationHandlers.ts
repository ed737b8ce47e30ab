import type { OrganizationsServiceServer } from '../../gen/organizations_service';
import { normalizeId } from '../../kernel/ids';
import type { Cursors } from '../../kernel/pages';
import type { HandlersOf } from '../../api/pipeline/handlers';
import type { OrganizationDeletion } from './organizationDeletion';
import {
  DELETED,
  deletionOfferToMessage,
  organizationPageToMessage,
  organizationToMessage,
} from './organizationMessages';
import type { OrganizationService } from './organizationService';

/** Handlers for organizations. */
export function organizationHandlers(
  organizations: OrganizationService,
  deletion: OrganizationDeletion,
  cursors: Cursors,
): HandlersOf<OrganizationsServiceServer> {
  return {
    createOrganization: async ({ name, ownerUserId }, { principal }) =>
      organizationToMessage(
        await organizations.create(name, normalizeId(ownerUserId) || principal.ownerUserId, principal),
      ),
    listOrganizations: async ({ pageSize, pageToken }, { principal }) =>
      organizationPageToMessage(await organizations.listPage(principal, cursors, pageSize, pageToken)),
    deleteOrganization: async ({ id, confirmation, name }, { principal, organizationId }) => {
      if (confirmation === '') return deletionOfferToMessage(await deletion.offer(organizationId, id, cursors));
      await deletion.confirm(principal, id, { confirmation, name }, cursors);
      return DELETED;
    },
    getOrganization: async (request, context) => {
      const organization = await organizations.getCallersOrganization(context.organizationId, request.id);
      return organizationToMessage(organization);
    },
    updateOrganization: async (request, context) => {
      const { name, readingRetentionDays, downsampleAfterDays } = request;
      const organization = await organizations.updateCallersOrganization(
        context.organizationId,
        request.id,
        { name, readingRetentionDays, downsampleAfterDays },
        request.etag,
      );
      return organizationToMessage(organization);
    },
  };
}
