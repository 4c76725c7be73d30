// Streamlit's own names of what it draws: not promised, so they stand here and in streamlit.css and nowhere else.

export const APP = "[data-testid=stApp]";
export const CONNECTION = "data-test-connection-state"; // an attribute of it
export const MAIN = "[data-testid=stMain]";
export const HTML = "[data-testid=stHtml]";
export const MARKDOWN = "[data-testid=stMarkdownContainer]";
export const PROSE = `${MARKDOWN}, ${HTML}, [data-testid=stHeading], [data-testid=stCaptionContainer]`;
export const APART =
  "[data-testid=stSidebar], [data-testid=stHeader], [data-testid=stPopoverBody], [data-testid=stMetricValue], [data-testid=stSliderThumbValue]";
export const STANDS_IN = "[data-testid=stSkeleton], [data-testid=stAppSkeleton]"; // while a script is loaded
