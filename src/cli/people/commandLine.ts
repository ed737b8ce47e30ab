import type { GrantingPrincipal } from '../../access';
import { SCOPES } from '../../kernel/scopes';

/** The command line as the grantor of roles: it has all permissions. */
export const COMMAND_LINE: GrantingPrincipal = { scopes: new Set(SCOPES), isOwner: true, isAdmin: true };
