/** A value, or what is wrong with it (by default the end of a sentence about it). */
export type Outcome<T, Problem = string> = { readonly value: T } | { readonly problem: Problem };
