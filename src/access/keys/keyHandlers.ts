import type {
  AccessControlServiceServer,
  ApiKey as ApiKeyMessage,
  CreateApiKeyRequest,
  CreateApiKeyResponse,
  KeyRestrictions as RestrictionsMessage,
  UpdateApiKeyRequest,
} from '../../gen/organization_access_control/access_control_service';
import type { Violation } from '../../kernel/errors';
import { normalizeId } from '../../kernel/ids';
import { fromTimestamp } from '../../kernel/timestamps';
import { withCheck, type HandlersOf } from '../../api/pipeline/handlers';
import type { CallContext } from '../../api/pipeline/callContext';
import { userToMessage } from '../people/peopleMessages';
import type { KeyChange } from './keyChanges';
import { apiKeyToMessage } from './keyMessages';
import type { KeyService, CreateKeyInput } from './keyService';

/** How long the old key stays valid after a rotation by default: a day. */
const DEFAULT_GRACE_SECONDS = 86_400;

/**
 * Handlers for API keys. `withCheck` combines a handler with a check of the message alone and, for a request that is
 * already invalid, a check of the records that it refers to, so that all violations are reported together.
 */
export function keyHandlers(
  keys: KeyService,
): Pick<
  HandlersOf<AccessControlServiceServer>,
  'whoAmI' | 'createApiKey' | 'getApiKey' | 'listApiKeys' | 'updateApiKey' | 'revokeApiKey' | 'rotateApiKey'
> {
  const checkNewKey = (request: CreateApiKeyRequest): Violation[] => keys.checkInput(toInput(request));
  const createKey = async (request: CreateApiKeyRequest, { principal }: CallContext): Promise<CreateApiKeyResponse> => {
    const { key, apiKey } = await keys.createApiKey(principal, toInput(request));
    return { key, apiKey: apiKeyToMessage(apiKey) };
  };
  const checkReferencesOfNewKey = async (
    request: CreateApiKeyRequest,
    { principal }: CallContext,
  ): Promise<Violation[]> => {
    const input = toInput(request);
    return [...(await keys.checkReferences(principal, input)), ...(await keys.checkOwner(principal, input))];
  };

  const checkKeyChange = (request: UpdateApiKeyRequest): Violation[] => [
    ...checkExpiryFields(request),
    ...keys.checkChange(toChange(request)),
  ];
  const updateKey = async (request: UpdateApiKeyRequest, { principal }: CallContext): Promise<ApiKeyMessage> => {
    const apiKey = await keys.updateApiKey(principal, request.id, toChange(request), request.etag);
    return apiKeyToMessage(apiKey);
  };
  const checkReferencesOfKeyChange = async (
    { restrictions }: UpdateApiKeyRequest,
    { principal }: CallContext,
  ): Promise<Violation[]> =>
    // The gateway connections of an existing key cannot be changed, so there are none to check.
    await keys.checkReferences(principal, { connectionIds: [], restrictions });

  return {
    whoAmI: async (_request, context) => {
      const { apiKey, user, organization } = await keys.whoAmI(context.principal);
      return {
        apiKey: apiKeyToMessage(apiKey),
        user: userToMessage(user),
        organizationName: organization.name,
        effectiveScopes: [...context.principal.scopes],
      };
    },

    createApiKey: withCheck(checkNewKey, createKey, checkReferencesOfNewKey),

    getApiKey: async (request, context) => {
      const apiKey = await keys.getApiKey(context.principal, request.id);
      return apiKeyToMessage(apiKey);
    },

    listApiKeys: async (request, context) => {
      const { items, nextPageToken } = await keys.listApiKeys(context.principal, request.pageSize, request.pageToken);
      return { apiKeys: items.map(apiKeyToMessage), nextPageToken };
    },

    updateApiKey: withCheck(checkKeyChange, updateKey, checkReferencesOfKeyChange),

    revokeApiKey: async (request, context) => {
      const apiKey = await keys.revokeApiKey(context.principal, request.id);
      return apiKeyToMessage(apiKey);
    },

    rotateApiKey: async (request, context) => {
      const { key, apiKey, oldApiKey } = await keys.rotateApiKey(
        context.principal,
        request.id,
        (request.graceSeconds ?? DEFAULT_GRACE_SECONDS) * 1000,
      );
      return { key, apiKey: apiKeyToMessage(apiKey), oldApiKey: apiKeyToMessage(oldApiKey) };
    },
  };
}

/** Converts the request to the input of the service. */
function toInput(request: CreateApiKeyRequest): CreateKeyInput {
  const { name, note, ownerUserId, scopes, connectionIds, allConnections, allowedAddresses, expiresAt } = request;
  return {
    name,
    note,
    ownerUserId: normalizeId(ownerUserId),
    scopes,
    connectionIds,
    allConnections,
    restrictions: getRestrictions(request.restrictions),
    allowedAddresses,
    expiresAt: expiresAt && fromTimestamp(expiresAt),
  };
}

/** Converts the request to a change. `expiresAt` becomes null if the key is to expire no more. */
function toChange(request: UpdateApiKeyRequest): KeyChange {
  const { name, note, neverExpires, allowedAddresses } = request;
  const expiresAt = request.expiresAt && fromTimestamp(request.expiresAt);
  return {
    name,
    note,
    expiresAt: neverExpires && !expiresAt ? null : expiresAt,
    restrictions: getRestrictions(request.restrictions),
    allowedAddresses: allowedAddresses?.addresses,
  };
}

function getRestrictions(restrictions: RestrictionsMessage | undefined): CreateKeyInput['restrictions'] {
  return (
    restrictions && {
      deviceIds: restrictions.deviceIds,
      connectionIds: restrictions.connectionIds,
      commandIds: restrictions.commandIds,
    }
  );
}

/** Returns a violation if the request sets both an expiry time and `neverExpires`. */
function checkExpiryFields({ expiresAt, neverExpires }: UpdateApiKeyRequest): Violation[] {
  return expiresAt && neverExpires
    ? [{ field: 'neverExpires', description: 'cannot be combined with expiresAt: set only one of them' }]
    : [];
}
