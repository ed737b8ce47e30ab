import type { OrganizationsServiceServer } from '../../gen/organizations_service';
import type { HandlersOf } from '../../rpc/handlers';
import { organizationToMessage } from './organizationMessages';
import { notYet } from '../notYet';
import type { OrganizationService } from './organizationService';

/** The way from the wire to OrganizationService and back. */
export function organizationHandlers(organizations: OrganizationService): HandlersOf<OrganizationsServiceServer> {
  return {
    createOrganization: notYet,
    listOrganizations: notYet,
    deleteOrganization: notYet,
    getOrganization: async (request, context) => {
      const organization = await organizations.getOwn(context.organizationId, request.id);
      return organizationToMessage(organization);
    },
    updateOrganization: async (request, context) => {
      const { name, readingRetentionDays, thinReadingsAfterDays } = request;
      const organization = await organizations.updateOwn(context.organizationId, request.id, { name, readingRetentionDays, thinReadingsAfterDays }, request.etag);
      return organizationToMessage(organization);
    },
  };
}
