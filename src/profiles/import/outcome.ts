/** What was found, or what is wrong with it: the end of a sentence about it, unless something else is said. */
export type Outcome<T, Problem = string> = { readonly value: T } | { readonly problem: Problem };
