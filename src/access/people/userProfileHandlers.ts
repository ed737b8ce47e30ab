import type { UserProfileServiceServer } from '../../gen/userprofile/user_profile_service';
import type { HandlersOf } from '../../api/pipeline/handlers';
import { userToMessage } from './peopleMessages';
import type { UserService } from './userService';

/** Handlers for the user profile. */
export function userProfileHandlers(users: UserService): HandlersOf<UserProfileServiceServer> {
  return {
    getPersonalUser: async (_request, context) => {
      const user = await users.getPersonalUser(context.principal);
      return userToMessage(user);
    },
  };
}
