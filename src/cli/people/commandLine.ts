import type { Giver } from '../../access';
import { SCOPES } from '../../kernel/scopes';

/** The one who runs the installation, as a giver of roles: holds everything. */
export const COMMAND_LINE: Giver = { scopes: new Set(SCOPES), roleId: 'owner', isAdmin: true };
