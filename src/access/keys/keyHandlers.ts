import type {
  AccessControlServiceServer,
  CreateApiKeyRequest,
  CreateApiKeyResponse,
  KeyRestrictions as RestrictionsMessage,
  UpdateApiKeyRequest,
} from '../../gen/organization_access_control/access_control_service';
import type { Violation } from '../../kernel/errors';
import { fromTimestamp } from '../../kernel/timestamps';
import { checked, type HandlersOf } from '../../rpc/handlers';
import { userToMessage } from '../people/peopleMessages';
import type { KeyChange } from './keyChanges';
import { apiKeyToMessage } from './keyMessages';
import type { KeyService, WantedKey } from './keyService';

const A_DAY = 86_400;

/** The way from the wire to KeyService and back. */
export function keyHandlers(access: KeyService): Pick<HandlersOf<AccessControlServiceServer>, 'whoAmI' | 'createApiKey' | 'getApiKey' | 'listApiKeys' | 'updateApiKey' | 'revokeApiKey' | 'rotateApiKey'> {
  return {
    whoAmI: async (_request, context) => {
      const { apiKey, user, organization } = await access.whoAmI(context.principal);
      return { apiKey: apiKeyToMessage(apiKey), user: userToMessage(user), organizationName: organization.name, effectiveScopes: [...context.principal.scopes] };
    },

    createApiKey: checked(
      (request: CreateApiKeyRequest) => access.checkWanted(wantedOf(request)),
      async (request, context): Promise<CreateApiKeyResponse> => {
        const { key, apiKey } = await access.createApiKey(context.principal, wantedOf(request));
        return { key, apiKey: apiKeyToMessage(apiKey) };
      },
      async (request, { principal }) => {
        const wanted = wantedOf(request);
        return [...(await access.checkReferences(principal, wanted)), ...(await access.checkOwner(principal, wanted))];
      },
    ),

    getApiKey: async (request, context) => {
      const apiKey = await access.getApiKey(context.principal, request.id);
      return apiKeyToMessage(apiKey);
    },

    listApiKeys: async (request, context) => {
      const { items, nextPageToken } = await access.listApiKeys(context.principal, request.pageSize, request.pageToken);
      return { apiKeys: items.map(apiKeyToMessage), nextPageToken };
    },

    updateApiKey: checked(
      (request: UpdateApiKeyRequest) => [...endsTwice(request), ...access.checkChange(changeOf(request))],
      async (request, context) => {
        const apiKey = await access.updateApiKey(context.principal, request.id, changeOf(request), request.etag);
        return apiKeyToMessage(apiKey);
      },
      async ({ restrictions }, { principal }) => await access.checkReferences(principal, { connectionIds: [], restrictions }),
    ),

    revokeApiKey: async (request, context) => {
      const apiKey = await access.revokeApiKey(context.principal, request.id);
      return apiKeyToMessage(apiKey);
    },

    rotateApiKey: async (request, context) => {
      const { key, apiKey, oldApiKey } = await access.rotateApiKey(context.principal, request.id, (request.graceSeconds ?? A_DAY) * 1000);
      return { key, apiKey: apiKeyToMessage(apiKey), oldApiKey: apiKeyToMessage(oldApiKey) };
    },
  };
}

function wantedOf(request: CreateApiKeyRequest): WantedKey {
  const { name, note, ownerUserId, scopes, connectionIds, allConnections, allowedAddresses, expiresAt } = request;
  return { name, note, ownerUserId, scopes, connectionIds, allConnections, restrictions: restrictionsOf(request.restrictions), allowedAddresses, expiresAt: expiresAt && fromTimestamp(expiresAt) };
}

function changeOf(request: UpdateApiKeyRequest): KeyChange {
  const { name, note, neverExpires, allowedAddresses } = request;
  const expiresAt = request.expiresAt && fromTimestamp(request.expiresAt);
  return { name, note, expiresAt: neverExpires && !expiresAt ? null : expiresAt, restrictions: restrictionsOf(request.restrictions), allowedAddresses: allowedAddresses?.addresses };
}

function restrictionsOf(restrictions: RestrictionsMessage | undefined): WantedKey['restrictions'] {
  return restrictions && { deviceIds: restrictions.deviceIds, connectionIds: restrictions.connectionIds, commandIds: restrictions.commandIds };
}

function endsTwice({ expiresAt, neverExpires }: UpdateApiKeyRequest): Violation[] {
  return expiresAt && neverExpires ? [{ field: 'neverExpires', description: 'excludes expiresAt; give one of the two' }] : [];
}
