export { DOCS_CSP, docsFiles, openApiText, type DocsFile } from './docs';
