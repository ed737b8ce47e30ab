import type { AccessControlServiceServer, CreateApiKeyRequest, CreateApiKeyResponse } from '../../gen/organization_access_control/access_control_service';
import { fromTimestamp } from '../../kernel/timestamps';
import { checked, type HandlersOf } from '../../rpc/handlers';
import { userToMessage } from '../people/peopleMessages';
import { apiKeyToMessage } from './keyMessages';
import type { KeyService } from './keyService';
import { notYet } from '../notYet';
import type { KeyGrant } from './apiKey';

// As many as the proto allows: of a list that is too long the rest is not looked at.
const MOST_CONNECTIONS = 100;

/** The way from the wire to KeyService and back. */
export function keyHandlers(access: KeyService): Pick<HandlersOf<AccessControlServiceServer>, 'whoAmI' | 'createApiKey' | 'getApiKey' | 'listApiKeys' | 'updateApiKey' | 'revokeApiKey' | 'rotateApiKey'> {
  return {
    whoAmI: async (_request, context) => {
      const { apiKey, user, organization } = await access.whoAmI(context.principal);
      return { apiKey: apiKeyToMessage(apiKey), user: userToMessage(user), organizationName: organization.name, effectiveScopes: [...context.principal.scopes] };
    },

    createApiKey: checked(
      (request: CreateApiKeyRequest) => access.checkGrant(grantOf(request)),
      async (request, context): Promise<CreateApiKeyResponse> => {
        const { key, apiKey } = await access.createApiKey(context.principal, request.name, grantOf(request));
        return { key, apiKey: apiKeyToMessage(apiKey) };
      },
      async ({ connectionIds }, context) => await access.checkConnections(context.organizationId, connectionIds.slice(0, MOST_CONNECTIONS)),
    ),

    listApiKeys: async (request, context) => {
      const { items, nextPageToken } = await access.listApiKeys(context.organizationId, request.pageSize, request.pageToken);
      return { apiKeys: items.map(apiKeyToMessage), nextPageToken };
    },

    getApiKey: notYet,
    updateApiKey: notYet,
    rotateApiKey: notYet,

    revokeApiKey: async (request, context) => {
      const apiKey = await access.revokeApiKey(context.organizationId, request.id);
      return apiKeyToMessage(apiKey);
    },
  };
}

function grantOf(request: CreateApiKeyRequest): KeyGrant {
  const { scopes, connectionIds, allConnections, expiresAt } = request;
  return { scopes, connectionIds, allConnections, restrictions: undefined, allowedAddresses: [], expiresAt: expiresAt && fromTimestamp(expiresAt) };
}
